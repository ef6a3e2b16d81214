"""The backend "shmtensor" of joblib: what programs know of joblib's own backends, without a main module."""

from __future__ import annotations

import pytest

from tests.helpers.children import importing_tests, run_python
from tests.integrations.programs import PROGRAMS

START = """
    import os
    import time
    import warnings

    import joblib
    import numpy as np
    from joblib import Parallel, delayed

    import shmtensor as st
    from tests.helpers.children import descendants, wait_until
    from tests.helpers.joblib_programs import pids, raised, use_backend

    use_backend()
"""


def run(program: str, *arguments: str, start: str = START) -> str:
    """Run a program as text, since a file would be a main module; return its errors."""
    done = run_python(start + program, timeout=110, env=importing_tests(), arguments=arguments)
    assert done.returncode == 0, done.stderr
    return done.stderr


def check(program: str) -> None:
    assert not run(program)


def check_file(name: str, *arguments: str) -> None:
    assert not run((PROGRAMS / name).read_text(), *arguments, start="")


def test_definitions_of_the_main_program_need_no_import() -> None:
    check("""
    class Point:
        def __init__(self, x):
            self.x = x


    def shifted(point, by=0):
        return Point(point.x + by)


    by = 3
    found = Parallel()(delayed(lambda x: shifted(Point(x), by))(i) for i in range(5))
    assert [type(point) for point in found] == [Point] * 5
    assert [point.x for point in found] == [3, 4, 5, 6, 7]
    by = 5
    assert Parallel()(delayed(lambda x: shifted(Point(x), by))(i) for i in range(2))[1].x == 6
    """)


def test_closures_need_no_cloudpickle_but_joblibs() -> None:
    check("""
    import importlib.util
    import sys

    has_copy = importlib.util.find_spec("joblib.externals.cloudpickle") is not None
    if has_copy:
        sys.modules["cloudpickle"] = None
    else:  # since joblib 1.6, which needs the package
        sys.modules["joblib.externals.cloudpickle"] = None
    assert Parallel()(delayed(lambda x: x + 1)(i) for i in range(3)) == [1, 2, 3]
    """)


def test_workers_are_used_again_until_they_were_idle() -> None:
    check("""
    first = pids()
    assert len(first) == 2
    assert pids() == first, "the next call has other workers"
    with Parallel() as parallel:
        for _ in range(2):
            assert set(parallel(delayed(os.getpid)() for _ in range(4))) <= first
    assert not first & set(Parallel(3)(delayed(os.getpid)() for _ in range(20))), "of another size"
    with joblib.parallel_config(backend="shmtensor", n_jobs=2, idle_worker_timeout=0.2):
        last = pids()
        wait_until(lambda: not last & descendants(os.getpid()), 30, "idle workers to end")
        assert not last & pids()
    """)


def test_exceptions_have_the_traceback_of_the_worker() -> None:
    check_file("joblib_backend_errors.py")


def test_generators_timeouts_and_batches() -> None:
    check("""
    slow = delayed(lambda x: time.sleep(0.3 * (x == 0)) or x)
    assert list(Parallel(return_as="generator")(slow(i) for i in range(50))) == list(range(50))
    if not joblib.__version__.startswith("1.3."):
        found = list(Parallel(return_as="generator_unordered", batch_size=1)(slow(i) for i in range(50)))
        assert sorted(found) == list(range(50)) and found[0] != 0, found

    assert "TimeoutError" in type(raised(time.sleep, 30, timeout=0.2)).__name__
    assert Parallel(timeout=60)(delayed(abs)(-i) for i in range(2)) == [0, 1]

    for size in ("auto", 7):
        assert Parallel(batch_size=size)(delayed(abs)(-i) for i in range(3000)) == list(range(3000))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # joblib reports that results were not used
        generator = Parallel(return_as="generator", pre_dispatch=2)(slow(i) for i in range(50))
        assert next(generator) == 0
        del generator
    assert len(pids()) == 2
    """)


def test_calls_overlap() -> None:
    check("""
    import threading

    slow = delayed(lambda i: time.sleep(0.01) or i)
    generator = Parallel(return_as="generator", batch_size=1)(slow(i) for i in range(100))
    for i in range(100):
        assert next(generator) == i
        if i % 40 == 0:
            assert Parallel()(delayed(abs)(-j) for j in range(10)) == list(range(10))

    def call(backend):
        for _ in range(5):
            results.append(Parallel(2, backend=backend)(delayed(abs)(-j) for j in range(10)))

    results = []
    threads = [threading.Thread(target=call, args=("shmtensor",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [list(range(10))] * 15
    """)


def test_tasks_may_start_processes() -> None:
    """Regression: the backend ran the calls in its own worker, and a pool was an AssertionError."""
    run("""
    import shmtensor.multiprocessing as mp

    def parallel(**options):
        parallel = Parallel(2, **options)
        pids = parallel(delayed(os.getpid)() for _ in range(2))
        return type(parallel._backend).__name__, os.getpid() in pids

    def pool():
        with mp.get_context("server").Pool(1) as pool:
            return pool.apply(os.getppid) != os.getpid(), pool.apply(sum, ([1, 2],))

    assert Parallel()(delayed(parallel)() for _ in range(2)) == [("ThreadingBackend", True)] * 2
    assert Parallel()(delayed(parallel)(backend="shmtensor") for _ in range(2)) == [("Backend", False)] * 2
    assert Parallel()(delayed(pool)() for _ in range(2)) == [(True, 3)] * 2
    """)


def test_workers_have_few_threads_and_are_initialized() -> None:
    check("""
    import ctypes

    from threadpoolctl import threadpool_info

    def threads():
        return {one["num_threads"] for one in threadpool_info()}, os.environ["OMP_NUM_THREADS"]

    def task():
        import scipy.linalg  # has a library of its own, which is loaded later
        return threads()

    np.ones((2, 2)) @ np.ones((2, 2))
    for count in (1, 2):
        with joblib.parallel_config(backend="shmtensor", n_jobs=2, inner_max_num_threads=count):
            assert Parallel()(delayed(task)() for _ in range(2)) == [({count}, str(count))] * 2
    assert Parallel(joblib.cpu_count())(delayed(task)() for _ in range(2)) == [({1}, "1")] * 2

    def initialize(value):
        global kept
        kept = value

    with joblib.parallel_config(backend="shmtensor", n_jobs=2, initializer=initialize, initargs=("good",)):
        assert Parallel()(delayed(lambda: kept)() for _ in range(2)) == ["good"] * 2
    """)


def test_initializer_that_raises_fails_the_call() -> None:
    run("""
    def initialize():
        raise LookupError("it is bad")

    with joblib.parallel_config(backend="shmtensor", n_jobs=2, initializer=initialize):
        for _ in range(2):
            error = raised(abs, 1)
            assert type(error) is st.multiprocessing.WorkerLost
            assert "no worker can run abs" in str(error) and "LookupError: it is bad" in str(error), error
    assert Parallel()(delayed(abs)(-i) for i in range(2)) == [0, 1]
    """)


@pytest.mark.parametrize("mode", ["r", "r+", "c", None])
def test_modes_of_large_arguments(mode) -> None:
    check_file("joblib_backend_modes.py", str(mode))


def test_arrays_in_files_stay_there() -> None:
    check("""
    import tempfile

    def write(target, i):
        assert isinstance(target, np.memmap)
        if target.flags.writeable:
            target[i] = i
        return target[2:]

    with tempfile.NamedTemporaryFile() as file:
        array = np.memmap(file.name, "float64", "w+", shape=(200_000,))
        found = Parallel(mmap_mode="r+")(delayed(write)(array, i) for i in range(4))
        assert array[:5].tolist() == [0, 1, 2, 3, 0]
        array[3] = 7
        assert [one[1] for one in found] == [7] * 4, "a result is not the file"
        found = Parallel()(delayed(lambda target: target[3])(array[1:]) for _ in range(2))
        assert found == [0, 0]
    """)
