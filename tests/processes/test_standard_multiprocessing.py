"""The standard `multiprocessing` sends handles in a program that only imports shmtensor."""

from __future__ import annotations

import pickle

import pytest

import shmtensor as st
from tests.helpers.children import run_program, run_python, write_program

EVERYWHERE = """
    import multiprocessing as mp
    import sys
    from concurrent.futures import ProcessPoolExecutor

    import shmtensor as st


    def add(tensor):
        tensor += 1
        return tensor


    def take(inbox, outbox):
        outbox.put(add(inbox.get()))


    if __name__ == "__main__":
        assert "shmtensor.multiprocessing" not in sys.modules
        context = mp.get_context(sys.argv[1])
        tensor = st.zeros(1000)
        process = context.Process(target=add, args=(tensor,))
        process.start()
        process.join(60)
        assert tensor[0].item() == 1, "an argument"
        with context.Pool(1) as pool:
            assert pool.apply_async(add, (tensor,)).get(60).storage() is tensor.storage()
        assert tensor[0].item() == 2, "a pool"
        for kind in (context.Queue, context.SimpleQueue):
            inbox, outbox = kind(), kind()
            process = context.Process(target=take, args=(inbox, outbox))
            process.start()
            inbox.put(tensor)
            assert outbox.get().storage() is tensor.storage()
            process.join(60)
        assert tensor[0].item() == 4, "queues"
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            assert executor.submit(add, tensor).result(60).storage() is tensor.storage()
        assert tensor[0].item() == 5, "an executor"
        assert "shmtensor.multiprocessing" not in sys.modules
        print("fine")
    """


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_s_writes_are_visible(tmp_path, method) -> None:
    """Regression: the worker wrote into a copy until something imported shmtensor.multiprocessing."""
    done = run_program(write_program(tmp_path, EVERYWHERE), method)
    assert done.stdout == "fine\n", done


FIRST = """
    import os, pickle, sys, traceback
    from pathlib import Path
    import numpy as np
    import shmtensor as st

    def first(way):
        made = eval(way)
        from multiprocessing.reduction import ForkingPickler
        message = ForkingPickler.dumps(made)
        assert len(message) < 1000, (way, len(message))

    array, path = np.zeros(10_000), Path(sys.argv[1])
    for way in sys.argv[2:]:
        pid = os.fork()
        if pid == 0:
            try:
                first(way)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0, way
    assert "multiprocessing" not in sys.modules
    """

WAYS = [
    *("st.empty(10_000)", "st.zeros(10_000)", "st.ones(10_000)", "st.full(10_000, 7)"),
    *("st.asarray(array)", "st.asarray(array[::2])", "st.asarray([0] * 10_000)"),
    *("st.from_numpy(array)", "st.from_dlpack(array)", "st.frombuffer(bytes(10_000), 'u1')"),
    *("st.Storage(10_000)", "st.Storage.from_file(path)", "st.Storage.from_file(path, shared=False)"),
    "pickle.loads(path.read_bytes())",
    *("st.SharedList([bytes(10_000)])", "st.SharedDict({'key': bytes(10_000)})"),
    "st.once('a name', lambda: st.zeros(10_000))",
]


@pytest.mark.parametrize("kind", ["tensor", "storage"])
def test_first_tensor_registers_the_reducers(tmp_path, kind) -> None:
    tensor = st.zeros(10_000)
    path = tmp_path / "by value"
    path.write_bytes(pickle.dumps(tensor if kind == "tensor" else tensor.storage()))
    done = run_python(FIRST, arguments=(str(path), *WAYS))
    assert done.returncode == 0, done


TOGETHER = """
    import os, threading
    import shmtensor as st

    THREADS, PROCESSES = 8, 20

    def first(barrier, sizes):
        barrier.wait()
        tensor = st.zeros(10_000)
        from multiprocessing.reduction import ForkingPickler
        sizes.append(len(ForkingPickler.dumps(tensor)))

    for _ in range(PROCESSES):
        pid = os.fork()
        if pid == 0:
            barrier, sizes = threading.Barrier(THREADS), []
            threads = [threading.Thread(target=first, args=(barrier, sizes)) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            os._exit(0 if len(sizes) == THREADS and max(sizes) < 1000 else 1)
        assert os.waitpid(pid, 0)[1] == 0
    """


def test_concurrent_first_tensors_are_sent_as_handles() -> None:
    done = run_python(TOGETHER)
    assert done.returncode == 0, done


def test_later_tensors_run_no_registration() -> None:
    done = run_python("""
    import builtins
    import shmtensor as st

    imported, standard = [], builtins.__import__
    def note(name, *args, **keywords):
        imported.append(name)
        return standard(name, *args, **keywords)

    builtins.__import__ = note
    first = st.zeros(3)
    assert "shmtensor.reducers" in imported
    imported.clear()
    more = [st.zeros(3), st.asarray([1.0]), st.frombuffer(bytearray(8))]
    assert "shmtensor.reducers" not in imported
    """)
    assert done.returncode == 0, done


FAILING = """
    import sys
    import numpy as np
    import pytest
    import shmtensor as st
    from multiprocessing.reduction import ForkingPickler

    makers = [
        lambda: st.zeros(1000),
        lambda: st.asarray(np.ones(1000)),
        lambda: st.frombuffer(bytearray(8)),
        lambda: st.Storage(8),
    ]
    sys.modules["shmtensor.reducers"] = None
    for make in makers:
        with pytest.raises(ImportError, match="shmtensor.reducers"):
            make()
    assert st.stats()["blocks"] == 0, st.stats()
    del sys.modules["shmtensor.reducers"]
    tensor = st.zeros(1000)
    assert len(ForkingPickler.dumps(tensor)) < 1000
    assert st.stats()["blocks"] == 1, st.stats()
    """


def test_failed_import_of_reducers_creates_nothing_and_is_retried() -> None:
    done = run_python(FAILING)
    assert done.returncode == 0, done
