"""Importing does nothing but import; the first tensor, or our multiprocessing, registers the reducers."""

from __future__ import annotations

import json

import pytest

from tests.helpers.children import output, run_program, run_python, write_program
from tests.helpers.kept_sessions import kept_session

LOOK = """
    import json, os, sys, threading
    def snapshot():
        tasks = os.listdir("/proc/self/task")
        return {
            "threads": [len(tasks), threading.active_count()],
            "descriptors": [os.readlink(f"/proc/self/fd/{fd}") for fd in range(100)
                            if os.path.lexists(f"/proc/self/fd/{fd}")],
            "children": [open(f"/proc/self/task/{task}/children").read() for task in tasks],
            "environment": dict(os.environ),
            "process environment": open("/proc/self/environ").read(),
            "signals": [line for line in open("/proc/self/status")
                        if line.startswith("Sig") and not line.startswith("SigQ")],  # SigQ: the user's
            "shared memory": [line for line in open("/proc/self/maps") if "shmtensor-" in line],
        }
"""


def run(program: str) -> dict:
    return json.loads(output(run_python(LOOK + program)))


@pytest.mark.parametrize(
    "statement", ["import shmtensor", "import shmtensor as st; st.Tensor, st.errors, st.stats(), dir(st)"]
)
def test_import_starts_opens_and_writes_nothing(statement) -> None:
    seen = run(f"""
    import numpy
    before = snapshot()
    {statement}
    print(json.dumps([before, snapshot()]))
    """)
    before, after = seen
    assert after == before


def test_import_loads_no_heavy_module_beyond_numpys() -> None:
    new = run("""
    import numpy
    before = set(sys.modules)
    import shmtensor
    print(json.dumps(sorted(set(sys.modules) - before)))
    """)
    heavy = {
        *("multiprocessing", "asyncio", "ctypes", "socket", "subprocess", "selectors", "tempfile"),
        *("concurrent", "logging", "psutil", "rich", "cupy", "torch", "unittest", "http", "email"),
        *("pathlib", "dataclasses", "urllib", "inspect"),  # a third of the whole time
    }
    assert not {name for name in new if name.split(".")[0] in heavy}
    assert "shmtensor._core" not in new
    assert not {name for name in new if name.startswith(("shmtensor.multiprocessing", "shmtensor.reducers"))}
    assert not {name for name in new if name.startswith("shmtensor.cli")}


def test_multiprocessing_import_loads_no_module_that_a_spawned_worker_may_not_need() -> None:
    new = run("""
    import numpy
    before = set(sys.modules)
    import shmtensor.multiprocessing
    print(json.dumps(sorted(set(sys.modules) - before)))
    """)
    assert not {"pathlib", "dataclasses", "tempfile", "multiprocessing.connection"} & set(new)


def test_first_tensor_registers_reducers_not_import() -> None:
    kinds = run("""
    import copyreg, numpy
    from multiprocessing.reduction import ForkingPickler
    known = lambda: (dict(ForkingPickler._extra_reducers), dict(copyreg.dispatch_table))
    before = known()
    import shmtensor
    shmtensor.Tensor, shmtensor.Storage, shmtensor.stats(), shmtensor.gc()
    assert known() == before
    shmtensor.zeros(3)
    assert dict(copyreg.dispatch_table) == before[1]
    print(json.dumps([kind.__name__ for kind in known()[0].keys() - before[0].keys()]))
    """)
    assert sorted(kinds) == ["OutgoingBytes", "Storage", "Tensor", "matrix", "ndarray", "recarray"]


@pytest.mark.parametrize(
    "statement", ["import shmtensor.multiprocessing", "import shmtensor as st; st.multiprocessing"]
)
def test_multiprocessing_import_registers_and_starts_nothing(statement) -> None:
    before, after = run(f"""
    import numpy, multiprocessing, multiprocessing.connection, multiprocessing.queues, threading, copyreg
    from multiprocessing.reduction import ForkingPickler
    known = lambda: (dict(ForkingPickler._extra_reducers), dict(copyreg.dispatch_table))
    before, tables = snapshot(), known()
    {statement}
    assert known() == tables
    print(json.dumps([before, snapshot()]))
    """)
    assert after == before


def test_numpy_arrays_are_registered_with_the_first_tensor() -> None:
    answers = run("""
    import numpy
    from multiprocessing.reduction import ForkingPickler
    import shmtensor as st
    known = lambda: numpy.ndarray in ForkingPickler._extra_reducers
    answers = [known()]
    st.empty(1)
    answers.append(known())
    print(json.dumps(answers))
    """)
    assert answers == [False, True]


def test_reducer_that_the_program_has_registered_before_stays() -> None:
    answers = run("""
    import numpy
    from multiprocessing.reduction import ForkingPickler
    import shmtensor as st
    import shmtensor.multiprocessing
    ForkingPickler.register(numpy.ndarray, lambda array: (str, ("array",)))
    ForkingPickler.register(st.Tensor, lambda tensor: (str, ("tensor",)))
    sent = numpy.zeros(3), st.zeros(3), numpy.zeros(3).view(numpy.matrix)
    print(json.dumps([str(ForkingPickler.loads(ForkingPickler.dumps(each))) for each in sent]))
    """)
    assert answers == ["array", "tensor", "[[0. 0. 0.]]"]


@pytest.mark.parametrize("attached", ["st.zeros(3)", "{'a': numpy.ones(3)}", "st.SharedDict({'a': 1})"])
def test_program_that_attaches_imports_no_multiprocessing(attached) -> None:
    """Its import takes longer than to join a session and attach an object of any size."""
    code = f"import numpy, shmtensor as st; st.publish('it', {attached}, keep=True)"
    with kept_session("attaching") as session:
        output(session.python(code))
        session.wait_until_left("it")
        done = session.python("""
            import sys
            import numpy
            before = set(sys.modules)  # Python 3.10 has `subprocess` for NumPy
            import shmtensor as st
            it = st.attach("it")
            new = set(sys.modules) - before
            assert not {"multiprocessing", "socket", "subprocess"} & new, new
            from multiprocessing.reduction import ForkingPickler
            tensor = st.zeros(10_000)
            assert len(ForkingPickler.dumps(tensor)) < 200
            import multiprocessing
            queue = multiprocessing.get_context("spawn").SimpleQueue()
            queue.put((tensor, it))
            found, _ = queue.get()
            assert found.data_ptr() == tensor.data_ptr()
        """)
        assert not output(done)


def test_plain_pickle_does_not_use_the_reducers() -> None:
    sizes = run("""
    import pickle
    from multiprocessing.reduction import ForkingPickler
    import shmtensor as st
    tensor = st.zeros(10000)
    sizes = [len(pickle.dumps(tensor)), len(ForkingPickler.dumps(tensor))]
    print(json.dumps(sizes))
    """)
    assert sizes[0] > 80_000
    assert sizes[1] < 200


PROGRAM_WITHOUT_ARRAYS = """
    import json, sys
    import shmtensor.multiprocessing as mp

    def modules(queue):
        queue.put(sorted(sys.modules))

    def double(number):
        return 2 * number, sorted(sys.modules)

    if __name__ == "__main__":
        ctx = mp.get_context(sys.argv[1])
        queue = ctx.Queue()
        process = ctx.Process(target=modules, args=(queue,))
        process.start()
        loaded = [queue.get()]
        process.join()
        with ctx.Pool(1) as pool:
            ((doubled, names),) = pool.map(double, [1])
        assert doubled == 2
        loaded += [names, sorted(sys.modules)]
        print(json.dumps(loaded))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_program_without_arrays_imports_neither_numpy_nor_what_sends_by_value(tmp_path, method) -> None:
    """Its workers would take three times as long to start; each fork copies the pages of what is imported."""
    by_value = "shmtensor.multiprocessing._by_value"
    for names in json.loads(output(run_program(write_program(tmp_path, PROGRAM_WITHOUT_ARRAYS), method))):
        assert not {"numpy", "shmtensor.tensor", "shmtensor._array_reducers", by_value} & set(names)


PROGRAM_OF_A_FORK_SERVER = """
    import sys
    import shmtensor.multiprocessing as mp

    def report(queue):
        from multiprocessing import forkserver
        queue.put(before)

    before = "numpy" in sys.modules, "shmtensor.creation" in sys.modules

    if __name__ == "__main__":
        if sys.argv[1] == "arrays":
            import numpy
            import shmtensor as st
            st.zeros(1)
        ctx = mp.get_context("forkserver")
        queue = ctx.SimpleQueue()
        process = ctx.Process(target=report, args=(queue,))
        process.start()
        print(queue.get())
        process.join()
"""


@pytest.mark.parametrize(("program", "preloaded"), [("arrays", True), ("none", False)])
def test_fork_server_preloads_what_the_program_has_imported(tmp_path, program, preloaded) -> None:
    done = run_program(write_program(tmp_path, PROGRAM_OF_A_FORK_SERVER), program)
    assert done.stdout == f"({preloaded}, {preloaded})\n", done.stderr


TWO_WORKERS = """
    import shmtensor.multiprocessing as mp
    if __name__ == "__main__":
        for _ in range(2):
            process = mp.get_context("forkserver").Process(target=len, args=("",))
            process.start()
            process.join()
"""


def test_fork_server_preloads_what_runs_the_main_module(tmp_path) -> None:
    """Regression: each worker imported `pkgutil` and `typing`, more than a third of its time."""
    program = write_program(tmp_path, TWO_WORKERS)
    done = run_program(program, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert sum(line.endswith(" pkgutil") for line in done.stderr.splitlines()) == 1


def test_worker_of_spawn_imports_little() -> None:
    """Every worker pays for each module: `typing` alone takes as long as the rest of the drop-in."""
    new = run("""
    import multiprocessing.spawn, multiprocessing.popen_spawn_posix, multiprocessing.resource_tracker
    before = set(sys.modules)
    import shmtensor.multiprocessing.process  # by which its Process object is unpickled
    print(json.dumps(sorted(set(sys.modules) - before)))
    """)
    assert not {"typing", "glob", "shmtensor._core", "shmtensor.multiprocessing.context"} & set(new)
    assert len(new) < 20, new


def test_forked_child_imports_nothing() -> None:
    """Regression: each imported `shmtensor.errors`, a quarter of the time of a short process."""
    new = run("""
    import shmtensor.multiprocessing as mp
    start = mp.get_context("fork").Process
    first = start(target=len, args=("",))
    first.start()
    first.join()
    before = set(sys.modules)
    child = start(target=lambda: print(json.dumps(sorted(set(sys.modules) - before))))
    child.start()
    child.join()
    """)
    assert not new
