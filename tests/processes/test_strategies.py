"""The sharing strategy is a property of the storage; children inherit the default, however they start."""

from __future__ import annotations

import os
import threading
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end, run_python
from tests.helpers.leaks import shm_names
from tests.helpers.queues import take


def test_strategy_functions() -> None:
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    assert mp.get_sharing_strategy() == "file_descriptor"
    with pytest.raises(ValueError, match="'nonsense'"):
        mp.set_sharing_strategy("nonsense")
    assert mp.get_sharing_strategy() == "file_descriptor"


def report_strategy(queue) -> None:
    queue.put((mp.get_sharing_strategy(), os.environ.get("SHMTENSOR_SESSION"), st.ones(1)))


def test_children_inherit_strategy_and_session(ctx, strategy) -> None:
    """In torch, spawned children use the default strategy."""
    queue = ctx.SimpleQueue()
    process = ctx.Process(target=report_strategy, args=(queue,))
    process.start()
    inherited, session, tensor = take(queue)
    end(process)
    assert inherited == strategy
    assert session == st.stats()["session"]
    assert tensor.item() == 1
    queue.close()


def test_pool_workers_inherit_strategy_and_session(ctx, strategy) -> None:
    with ctx.Pool(1) as pool:
        assert pool.apply(mp.get_sharing_strategy) == strategy
        pool.close()
        pool.join()


def test_switching_strategies_keeps_existing_storages() -> None:
    """In torch, a tensor sent after a switch is silently copied, and later writes are lost."""
    queue = mp.SimpleQueue()
    tensor = st.zeros(3)
    address = tensor.data_ptr()
    mp.set_sharing_strategy("file_system")
    try:
        queue.put(tensor)
        back = take(queue)
        tensor.fill_(7)
        assert back.tolist() == [7, 7, 7]
        assert tensor.data_ptr() == address
        assert back.storage() is tensor.storage()
        named = st.ones(2)
    finally:
        mp.set_sharing_strategy("file_descriptor")
    queue.put(named)
    assert take(queue).storage() is named.storage()
    queue.close()


def sum_of(queue, answers) -> None:
    answers.put(sum(float(tensor.numpy().sum()) for tensor in queue.get()))


def test_one_message_mixes_strategies(ctx) -> None:
    tensors = []
    for strategy in ("file_system", "file_descriptor", "file_system"):
        mp.set_sharing_strategy(strategy)
        tensors.append(st.ones(10))
    mp.set_sharing_strategy("file_descriptor")
    queue, answers = ctx.SimpleQueue(), ctx.SimpleQueue()
    process = ctx.Process(target=sum_of, args=(queue, answers))
    process.start()
    queue.put(tensors)
    assert take(answers) == 30
    end(process)
    queue.close()
    answers.close()


@pytest.mark.parametrize("name", ["file_descriptor", "file_system"])
def test_environment_variable_sets_the_initial_strategy(name) -> None:
    done = run_python(
        """
        import os
        import shmtensor as st, shmtensor.multiprocessing as mp
        tensor = st.ones(1)
        session = st.stats()["session"]
        print(mp.get_sharing_strategy(), any(session in n for n in os.listdir("/dev/shm")))
        """,
        env={"SHMTENSOR_SHARING_STRATEGY": name},
    )
    assert done.stdout.split() == [name, str(name == "file_system")], done


def test_invalid_environment_value_raises_at_import() -> None:
    done = run_python("import shmtensor", env={"SHMTENSOR_SHARING_STRATEGY": "carrier pigeon"})
    assert done.returncode != 0
    assert "carrier pigeon" in done.stderr


def test_named_arenas_keep_no_descriptor(ctx) -> None:
    mp.set_sharing_strategy("file_system")
    try:
        queue = ctx.SimpleQueue()
        process = ctx.Process(target=report_strategy, args=(queue,))
        process.start()
        tensor = take(queue)[2]
        names = {
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if fd.isdigit() and os.path.islink(f"/proc/self/fd/{fd}")
        }
        assert not [name for name in names if name.startswith("/dev/shm/shmtensor-")]
        assert shm_names(st.stats()["session"])
        end(process)
        assert tensor.item() == 1
        queue.close()
    finally:
        mp.set_sharing_strategy("file_descriptor")


def test_threads_share_the_strategy(strategy) -> None:
    seen = []
    thread = threading.Thread(target=lambda: seen.append(mp.get_sharing_strategy()))
    thread.start()
    thread.join()
    assert seen == [strategy]


def sum_array(queue, answers) -> None:
    array = queue.get()
    answers.put(
        (
            type(array),
            float(array.sum()),
            array.base is not None,
            array.flags.writeable,
            array.flags.f_contiguous,
        )
    )
    array[...] = 0 if array.flags.writeable else array


@pytest.fixture
def sharing_numpy():
    mp.share_numpy(min_bytes=1000)
    yield
    mp.share_numpy(None)


def test_share_numpy_sends_arrays_through_shared_memory(ctx, strategy, sharing_numpy) -> None:
    queue, answers = ctx.SimpleQueue(), ctx.SimpleQueue()
    for array in (np.ones(1000), np.ones((40, 50)), np.ones((40, 50), order="F"), np.ones((100, 10))[::2]):
        process = ctx.Process(target=sum_array, args=(queue, answers))
        process.start()
        queue.put(array)
        kind, total, borrowed, writeable, fortran = take(answers)
        assert (kind, total, borrowed, writeable) == (np.ndarray, array.sum(), True, True)
        assert fortran == array.flags.f_contiguous
        end(process)
        assert (array == 1).all(), "the receiver has its own copy"
    queue.close()
    answers.close()


def test_small_and_object_arrays_use_default_pickling(strategy, sharing_numpy) -> None:
    class Special(np.ndarray):
        pass

    globals()["Special"] = Special
    Special.__qualname__ = "Special"
    queue = mp.SimpleQueue()
    frozen = np.ones(500)
    frozen.flags.writeable = False
    for array in (np.ones(3), np.array([{}, None] * 200), np.ones(500).view(Special), frozen):
        queue.put(array)
        back = take(queue)
        assert type(back) is type(array)
        assert back.flags.writeable == array.flags.writeable
        assert (back == array).all()
    assert st.stats()["in_flight"] == 0
    queue.close()


def test_array_is_sent_while_share_numpy_is_switched_off(sharing_numpy) -> None:
    """As by another thread: the size that an array is compared with is read once."""

    class Switch(np.ndarray):
        @property
        def nbytes(self) -> int:
            mp.share_numpy(None)
            return 8

    rebuild, arguments, *_ = ForkingPickler._extra_reducers[np.ndarray](np.ones(1).view(Switch))
    assert rebuild(*arguments).shape == (0,), "NumPy's own reduction"


def test_share_numpy_rejects_invalid_sizes() -> None:
    with pytest.raises(ValueError, match="-1"):
        mp.share_numpy(-1)
