"""joblib and loky with `st.install`: equal results, shared writes, copies made once, deaths."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import pytest

from tests.helpers.children import (
    assert_equal_output,
    importing_tests,
    run_command,
    run_program,
    write_program,
)

BACKENDS = ["loky", "multiprocessing", "shmtensor"]

EQUAL = """
    import sys

    import numpy as np
    from joblib import Parallel, delayed


    def describe(array):
        flags = array.flags
        return [array.shape, str(array.dtype), flags.f_contiguous, flags.c_contiguous]


    def use(array, other=None):
        # This module does not import shmtensor in a worker.
        try:
            array[0] = array[1]
            wrote = True
        except ValueError:
            wrote = False
        return [*describe(array), array.flags.writeable], wrote, array, array[::2], {"other": [other]}


    if __name__ == "__main__":
        backend, mode, on = sys.argv[1:4]
        if on == "on":
            import shmtensor as st

            st.install("joblib")
        elif backend == "shmtensor":
            backend = "loky"
        square = np.arange(1_000_000.0).reshape(1000, 1000)
        arrays = [
            square,
            np.asfortranarray(square),
            square[::2, 1:],
            square.astype("M8[s]"),
            np.zeros(200_000, [("a", "i4"), ("b", "f8")]),
            np.arange(20_000),
            np.array([{}, None] * 100_000),
            np.zeros((0, 3)),
            np.float32(3) * np.ones(()),
        ]
        with Parallel(2, backend=backend, mmap_mode=mode, batch_size=1) as parallel:
            for _ in range(2):
                results = parallel(
                    delayed(use)(array, square) for array in arrays if len(array.shape) and len(array)
                )
                for seen, wrote, array, half, rest in results:
                    print(seen, wrote, describe(array), half.sum() if half.dtype.kind == "f" else half[:2])
                    print(describe(half), rest["other"][0].sum())
                for _, _, array, _, _ in results:
                    # joblib's own results of read-only arguments are read-only if they are contiguous.
                    if on == "on" or array.flags.writeable:
                        array[0] = array[1]
                if mode == "r":
                    square *= 2  # as without: tasks of the same block of `with` may see the file of before
        for array in parallel(delayed(np.copy)(array) for array in arrays):
            print(describe(array), array.ravel()[-2:])
        assert square[0, 3] == (12 if mode == "r" else 3), "workers have changed what the parent has"
    """


@pytest.mark.parametrize("mode", ["r", "c"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_equal_with_and_without_the_integration(tmp_path, backend, mode) -> None:
    assert_equal_output(write_program(tmp_path, EQUAL), backend, mode, timeout=110)


SHARED = """
    import sys
    import time

    import numpy as np
    from joblib import Parallel, delayed


    def write(target, i):
        target[i] = i + 1
        return target


    def make(i):
        return np.full(100_000, i)


    def settled():
        return (st.stats()["blocks"], st.stats()["in_flight"]) == (0, 0)


    if __name__ == "__main__":
        import shmtensor as st
        from tests.helpers.children import wait_until

        backend = sys.argv[1]
        st.install("joblib")
        tensor = st.zeros(4, "int64")
        array = st.zeros(4, "int64").numpy()
        with Parallel(2, backend=backend) as parallel:
            for target in (tensor, array):
                found = parallel(delayed(write)(target, i) for i in range(4))
                assert target.tolist() == [1, 2, 3, 4], target.tolist()
                found[0][0] = 9
                assert target[0] == 9, "the result is not the same memory"
            time.sleep(0.2)  # until the thread that receives results has released the last one
            before = st.stats()["blocks"]
            made = parallel(delayed(make)(i) for i in range(3))
            wait_until(lambda: st.stats()["blocks"] == before + 3, 20, lambda: str(st.stats()))
            assert [one[-1] for one in made] == [0, 1, 2]
        del tensor, array, target, found, made
        st.uninstall("joblib")  # ends the idle workers of the backend "shmtensor", which have queues
        wait_until(settled, 60, lambda: str(st.stats()))
        print("fine")
    """


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_of_workers_are_seen_and_nothing_is_left(tmp_path, backend) -> None:
    done = run_program(write_program(tmp_path, SHARED), backend, env=importing_tests(), timeout=110)
    assert done.stdout == "fine\n", done


COPIES = """
    import logging
    import sys

    import numpy as np
    from joblib import Parallel, delayed


    def total(array):
        return array.sum()


    if __name__ == "__main__":
        import shmtensor as st
        from shmtensor.integrations._joblib import arrays
        from tests.helpers.children import wait_until

        made = []
        copy_of = arrays.copy_of
        arrays.copy_of = lambda array: made.append(array.shape) or copy_of(array)
        backend = sys.argv[1]
        st.install("joblib")
        array = np.ones(1_000_000)
        Parallel(2, backend=backend)(delayed(abs)(1) for _ in range(2))
        idle = st.stats()["blocks"]  # the queues of the backend "shmtensor"
        for call in range(1, 4):
            totals = Parallel(2, backend=backend)(delayed(total)(array) for _ in range(8))
            assert totals == [call * 1_000_000] * 8, totals
            assert len(made) == call
            array += 1
            # The array is alive.
            wait_until(lambda: st.stats()["blocks"] <= idle, 40, lambda: str(st.stats()))
        # Arrays of one task each live as long as the task.
        with Parallel(2, backend=backend, pre_dispatch=2, batch_size=1) as parallel:
            parallel(delayed(total)(array + i) for i in range(10))
            wait_until(lambda: st.stats()["blocks"] < idle + 5, 20, lambda: str(st.stats()))
        st.set_limit(st.stats()["bytes_reserved"] + (4 << 20))
        big = np.ones(8_000_000)
        texts = []
        logger = logging.getLogger("shmtensor")
        logger.addHandler(logging.NullHandler())
        logger.addFilter(lambda record: texts.append(record.getMessage()))
        try:
            assert Parallel(2, backend=backend)(delayed(total)(big) for _ in range(2)) == [8_000_000] * 2
            assert texts[0].startswith("joblib copies an array of 64000000 bytes through a file: "), texts
        except st.errors.OutOfSharedMemory:
            assert backend == "shmtensor"
        made.clear()
        st.uninstall("joblib")
        backend = "loky" if backend == "shmtensor" else backend
        assert Parallel(2, backend=backend)(delayed(total)(array) for _ in range(2)) == [4_000_000] * 2
        assert not made
        print("fine")
    """


@pytest.mark.parametrize("backend", BACKENDS)
def test_argument_is_copied_once_in_a_call(tmp_path, backend) -> None:
    done = run_program(write_program(tmp_path, COPIES), backend, env=importing_tests(), timeout=110)
    assert done.stdout == "fine\n", done


LARGE_RESULTS = """
    import logging
    import sys

    import numpy as np
    from joblib import Parallel, delayed


    def result():
        logging.basicConfig()
        return np.ones(8_000_000)


    if __name__ == "__main__":
        import shmtensor as st

        st.install("joblib")
        for array in Parallel(2, backend=sys.argv[1])(delayed(result)() for _ in range(2)):
            assert array.sum() == 8_000_000
        assert st.stats()["blocks"] == 0
"""


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_result_that_has_no_room_in_shared_memory_is_logged(tmp_path, backend) -> None:
    program = write_program(tmp_path, LARGE_RESULTS)
    env = importing_tests() | {"SHMTENSOR_MAX_BYTES": str(4 << 20)}
    done = run_program(program, backend, env=env, timeout=110)
    assert done.returncode == 0, done.stderr
    logged = "WARNING:shmtensor:joblib sends a result of 64000000 bytes without shared memory: "
    assert done.stderr.count(logged) == 2, done.stderr


DEATHS = """
    import os
    import signal
    import sys

    import numpy as np
    from joblib import Parallel, delayed


    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)


    class Dies:
        def __init__(self, instant):
            self.instant = instant

        def __reduce__(self):
            if self.instant == "reduce":
                die()
            return die if self.instant == "rebuild" else str, ()


    def work(instant, tensor, dying, array, plain):
        if instant == "run":
            die()
        return np.ones(100_000), tensor, Dies(instant), array


    def settled():
        return (st.stats()["blocks"], st.stats()["in_flight"]) == (1, 0)  # the tensor


    if __name__ == "__main__":
        import shmtensor as st
        from tests.helpers.children import wait_until

        backend, instant = sys.argv[1:]
        st.install("joblib")
        tensor = st.zeros(100_000)
        # Some handles are before the object that kills, some after it.
        dying = Dies("rebuild") if instant == "rebuild" else None
        task = delayed(work)(instant, tensor, dying, tensor.numpy(), np.ones(1_000_000))
        try:
            # A pool of multiprocessing never returns the result of a worker that was killed.
            Parallel(2, backend=backend, timeout=5)([task] * 6)
        except Exception as error:
            print(type(error).__name__)
        del task
        # No gc: the manager cancels messages in pipes that no process can read.
        wait_until(settled, 60, lambda: str(st.stats()))
        print("fine")
    """


# A pool of multiprocessing hangs, with or without us, if a worker is killed while it has the lock of a queue.
@pytest.mark.parametrize(
    ("backend", "instant"),
    [
        *itertools.product(["loky", "shmtensor"], ["rebuild", "run", "reduce"]),
        ("multiprocessing", "run"),
    ],
)
def test_killed_workers_leave_nothing(tmp_path, backend, instant) -> None:
    program = write_program(tmp_path, DEATHS)
    done = run_program(program, backend, instant, env=importing_tests(), timeout=110)
    errors = {
        "loky": "TerminatedWorkerError",
        "shmtensor": "WorkerLost",
        "multiprocessing": "TimeoutError",
    }
    assert done.stdout == f"{errors[backend]}\nfine\n", done


LOKY = """
    import numpy as np
    from loky import get_reusable_executor


    def write(target, i):
        target[i] = i + 1
        return target


    def settled():
        return (st.stats()["blocks"], st.stats()["in_flight"]) == (0, 0)


    if __name__ == "__main__":
        import shmtensor as st
        from tests.helpers.children import wait_until

        st.install("loky")
        executor = get_reusable_executor(2)
        tensor = st.zeros(4)
        futures = [executor.submit(write, target, i) for target in (tensor, tensor.numpy()) for i in range(4)]
        results = [future.result(60) for future in futures]
        assert tensor.tolist() == [1, 2, 3, 4]
        results[5][0] = 9
        assert tensor[0] == 9
        del results, futures
        del tensor
        executor.shutdown()
        wait_until(settled, 60, lambda: str(st.stats()))
        st.uninstall("loky")
        tensor = st.zeros(4)
        executor = get_reusable_executor(2)
        executor.submit(write, tensor, 0).result(60)
        assert tensor.tolist() == [0, 0, 0, 0]
        executor.shutdown()
        print("fine")
    """


def test_loky_itself(tmp_path) -> None:
    done = run_program(write_program(tmp_path, LOKY), env=importing_tests(), timeout=110)
    assert done.stdout == "fine\n", done


TOUCHED = """
    import os
    import time

    import numpy as np
    from joblib import Parallel, delayed
    from joblib.externals.loky import process_executor


    def fill(tensor, seconds):
        process_executor._MAX_MEMORY_LEAK_SIZE = 20_000_000
        np.asarray(tensor).fill(1)
        time.sleep(seconds)
        return os.getpid()


    if __name__ == "__main__":
        import shmtensor as st

        st.install("joblib")
        with Parallel(2, batch_size=1) as parallel:
            # loky compares with the memory after the first task, and not within a second.
            first, second, third = (
                set(parallel(delayed(fill)(st.zeros(count), seconds) for _ in range(2)))
                for count, seconds in ((1, 0.2), (5_000_000, 1.2), (1, 0.2))
            )
        # One worker may have started late, but no third one.
        assert len(first | second | third) == 2, (first, second, third)
    """


def test_loky_keeps_workers_that_have_touched_much_shared_memory(tmp_path) -> None:
    done = run_program(write_program(tmp_path, TOUCHED), timeout=110)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


SKLEARN = """
    import sys

    import numpy as np
    from joblib import parallel_config
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict, cross_val_score

    if __name__ == "__main__":
        backend, on = sys.argv[1:]
        if on == "on":
            import shmtensor as st

            st.install("joblib")
            parallel_config(backend=backend)
        random = np.random.default_rng(0)
        data = random.standard_normal((4000, 50))
        target = (data[:, 0] + random.standard_normal(4000) > 0).astype(int)
        print(cross_val_score(LogisticRegression(), data, target, n_jobs=2).tolist())
        predicted = cross_val_predict(
            LogisticRegression(), data, target, method="predict_proba", n_jobs=2
        )
        print(predicted.sum(0).tolist())
        forest = RandomForestClassifier(20, n_jobs=2, random_state=0).fit(data, target)
        print(forest.predict_proba(data).sum(0).tolist())
    """


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["loky", "shmtensor"])
def test_scikit_learn(tmp_path, backend) -> None:
    assert_equal_output(write_program(tmp_path, SKLEARN), backend, timeout=110)


def test_example_of_the_guide(tmp_path) -> None:
    page = Path(__file__).parents[2] / "docs" / "guide" / "with-joblib.md"
    (code,) = re.findall(r"^```py\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    done = run_program(write_program(tmp_path, code + "print(out[81].item())\n"))
    assert done.stdout == "9.0\n", done


def test_measurement_runs() -> None:
    command = [sys.executable, "-m", "bench", "joblib", "--quick", "--rounds", "1"]
    assert "empty" in run_command(command, timeout=110).stdout
