"""Promise 17: what resides in shared memory is recognised by its address, whatever made the array."""

from __future__ import annotations

import gc
import os
import pickle
import random
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmtensor as st
from shmtensor._core import storage_at
from tests.helpers.children import clean_environment, run_python
from tests.helpers.threads import run_together


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def storage_of(array: np.ndarray) -> st.Storage | None:
    return storage_at(address(array), max(array.nbytes, 1))


def test_any_part_of_a_storage_is_found(strategy) -> None:
    tensor = st.zeros(1000)
    storage, begin = tensor.storage(), tensor.data_ptr()
    assert storage_at(begin, 8000) is storage
    assert storage_at(begin + 7999, 1) is storage
    for array in (tensor.numpy(), np.from_dlpack(tensor), np.asarray(tensor), np.frombuffer(storage)):
        assert storage_of(array[10:20]) is storage
    assert storage_at(address(tensor.numpy()[::-2]), 8) is storage


def test_block_that_took_the_place_of_others_is_found() -> None:
    """Regression: of the blocks that had begun at an offset since the last look-up, a freed one was found."""
    chance = random.Random(0)
    live: list[st.Storage] = []
    for _ in range(20_000):
        if live and chance.random() < 0.45:
            live.pop(chance.randrange(len(live)))
        elif chance.random() < 0.8 or not live:
            live.append(st.Storage(chance.choice((1, 48, 4096))))
        else:
            storage = chance.choice(live)
            assert storage_at(storage.data_ptr(), storage.nbytes) is storage
        del live[30:]


def test_other_memory_is_not_found() -> None:
    first, second = st.zeros(8), st.zeros(8)  # perhaps neighbours
    begin = first.data_ptr()
    assert storage_at(begin, 0) is None
    assert storage_at(begin, 65) is None
    assert storage_at(begin - 8, 16) is None
    assert storage_at(min(begin, second.data_ptr()), 2**64 - 1) is None
    assert storage_at(0, 1) is None
    assert storage_at(2**64 - 1, 2**64 - 1) is None
    assert storage_of(np.zeros(100)) is None
    assert storage_of(st.from_numpy(np.zeros(100)).numpy()) is None
    for arguments in ((), (1,), (1, 2, 3)):
        with pytest.raises(TypeError):
            storage_at(*arguments)
    for arguments in ((-1, 1), (1, -1), (2**64, 1), ("1", 1)):
        with pytest.raises((TypeError, OverflowError)):
            storage_at(*arguments)


def test_freed_block_is_not_found_until_it_is_used_again() -> None:
    tensor = st.zeros(100)
    begin = tensor.data_ptr()
    assert storage_at(begin, 1) is not None
    del tensor
    gc.collect()
    assert storage_at(begin, 1) is None
    again = st.zeros(100)
    assert storage_at(again.data_ptr(), 800) is again.storage()


def test_memory_that_moves_is_found_where_it_is_shared() -> None:
    private = np.arange(1000.0)
    tensor = st.from_numpy(private)
    tensor.share_memory_()
    assert storage_of(private) is None
    assert storage_of(tensor.numpy()) is tensor.storage()


def test_read_only_mapping_is_found_at_its_own_address(strategy) -> None:
    arrived = pickle.loads(ForkingPickler.dumps(st.frombuffer(b"x" * 1000, np.uint8)))
    assert arrived.readonly
    assert storage_of(arrived.numpy()) is arrived.storage()
    tensor = st.zeros(100)
    assert storage_of(tensor.as_readonly().numpy()) is tensor.storage()


def test_storage_of_a_file_is_found_until_it_is_deleted(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10_000))
    storage = st.Storage.from_file(path)
    begin = storage.data_ptr()
    array = np.frombuffer(storage, np.uint8)[77:]
    del storage
    assert storage_of(array).filename == str(path)
    del array
    assert storage_at(begin, 1) is None


def test_many_blocks_in_any_order() -> None:
    rng = random.Random(1)
    tensors = [st.empty(rng.choice([1, 100, 5000]), dtype="uint8") for _ in range(3000)]
    for _ in range(3):
        rng.shuffle(tensors)
        for tensor in tensors:
            assert storage_of(tensor.numpy()) is tensor.storage()
        del tensors[:1500]
        tensors += [st.empty(rng.randrange(1, 20_000), dtype="uint8") for _ in range(1500)]


@pytest.mark.thorough
def test_storages_of_other_sessions_are_found() -> None:
    program = """if True:
        import sys, shmtensor as st
        from multiprocessing.reduction import ForkingPickler
        tensor = st.full(1000, 3.0)
        sys.stdout.buffer.write(bytes(ForkingPickler.dumps(tensor)))
        sys.stdout.close()
        sys.stdin.readline()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        arrived = pickle.load(process.stdout)
        assert storage_of(arrived.numpy()) is arrived.storage()
        begin = arrived.data_ptr()
        del arrived
        process.stdin.close()
        assert process.wait(30) == 0
    st.gc()
    assert storage_at(begin, 1) is None


def test_forked_child_finds_what_it_inherited(strategy) -> None:
    run_python("""
        import os
        import shmtensor as st
        from shmtensor._core import storage_at
        tensor = st.zeros(100)
        noted = st.zeros(100)
        assert storage_at(noted.data_ptr(), 8) is noted.storage()
        if (pid := os.fork()) == 0:
            own = st.zeros(100)
            for known in (tensor, noted, own):
                assert storage_at(known.data_ptr(), 800) is known.storage()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert storage_at(tensor.data_ptr(), 800) is tensor.storage()
    """).check_returncode()


@pytest.mark.thorough
def test_process_with_little_address_space_finds_what_its_windows_map() -> None:
    program = """if True:
        import pickle, resource, sys
        import shmtensor as st
        from shmtensor._core import storage_at
        tensors = pickle.load(sys.stdin.buffer)
        for tensor in tensors:
            array = tensor.numpy()
            assert storage_at(array.ctypes.data, array.nbytes) is tensor.storage()
    """
    tensors = [st.zeros(1 << 20) for _ in range(10)]
    content = bytes(ForkingPickler.dumps(tensors))
    set_limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({3 << 30},) * 2)\n"
    subprocess.run(
        [sys.executable, "-c", set_limit + program],
        input=content,
        timeout=60,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=True,
    )


def test_threads_look_up_while_others_allocate_and_release() -> None:
    kept = st.zeros(1000)

    def look_up() -> None:
        for _ in range(2000):
            assert storage_at(kept.data_ptr() + 80, 100) is kept.storage()

    def allocate() -> None:
        for size in range(1, 2000):
            tensor = st.empty(size, dtype="uint8")
            begin = tensor.data_ptr()
            assert storage_at(begin, size) is tensor.storage()
            del tensor
            storage_at(begin, size)  # perhaps the one of another thread

    def look_up_dying() -> None:
        for _ in range(1000):
            tensor = st.empty(64, dtype="uint8")
            begin = tensor.data_ptr()
            run = [tensor]
            del tensor
            run.clear()
            found = storage_at(begin, 64)
            assert found is None or found.nbytes >= 64

    run_together(look_up, allocate, allocate, look_up_dying)
