"""share_memory_: the storage moves with all its tensors; the wrapped array keeps the private memory."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import output, run_python
from tests.helpers.live_resources import live_resources
from tests.helpers.threads import run_together

pytestmark = pytest.mark.usefixtures("strategy")


def test_share_memory_moves_all_tensors_of_the_storage() -> None:
    array = np.arange(12.0).reshape(3, 4)
    tensor = st.from_numpy(array)
    views = [tensor[1], tensor.T, tensor[::-1, ::2], tensor.as_readonly()]
    before = [(view.shape, view.strides, view.storage_offset(), view.readonly) for view in views]
    address = tensor.data_ptr()
    assert tensor[1:].share_memory_().is_shared()
    assert tensor.is_shared()
    assert tensor.data_ptr() != address
    assert all(view.is_shared() and view.storage() is tensor.storage() for view in views)
    assert [(view.shape, view.strides, view.storage_offset(), view.readonly) for view in views] == before
    tensor.fill_(5)
    assert all((view.numpy() == 5).all() for view in views)


def test_earlier_arrays_keep_the_private_memory() -> None:
    array = np.arange(3)
    tensor = st.from_numpy(array)
    old, buffer = tensor.numpy(), memoryview(tensor)
    tensor.share_memory_()
    tensor.fill_(7)
    assert array.tolist() == old.tolist() == buffer.tolist() == [0, 1, 2]
    array[0] = 5
    assert tensor.tolist() == [7, 7, 7]


def test_share_memory_returns_self_and_runs_once() -> None:
    before = live_resources()
    tensor = st.from_numpy(np.ones(3))
    assert tensor.share_memory_() is tensor
    address = tensor.data_ptr()
    assert tensor.share_memory_() is tensor
    assert tensor.storage().share_memory_() is tensor.storage()
    assert tensor.data_ptr() == address
    assert live_resources()[0] == before[0] + 1
    del tensor
    assert live_resources() == before


def test_wrapped_object_is_released_with_the_storage() -> None:
    array = np.ones(3)
    gone = weakref.ref(array)
    tensor = st.from_numpy(array).share_memory_()
    del array
    gc.collect()
    assert gone() is not None, "other code may read its bytes"
    del tensor
    gc.collect()
    assert gone() is None


def test_readonly_storage_stays_readonly() -> None:
    tensor = st.frombuffer(b"12345678", "u1")
    other = st.Tensor(tensor.storage(), "u1", 8)
    tensor.share_memory_()
    for each in (tensor, other):
        assert each.is_shared()
        assert each.readonly
        assert each.numpy().tobytes() == b"12345678"
        with pytest.raises(ValueError, match="read-only"):
            each[0] = 0
    assert tensor.storage().readonly


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_share_memory_accepts_empty_to_large_sizes(size) -> None:
    content = bytes(i % 251 for i in range(size))
    tensor = st.frombuffer(bytearray(content), "u1").share_memory_()
    assert tensor.numpy().tobytes() == content


def test_simultaneous_share_memory_creates_one_block() -> None:
    before = live_resources()
    for _ in range(20):
        tensor = st.from_numpy(np.arange(50_000))
        run_together(*[tensor.share_memory_] * 4)
        assert live_resources()[0] == before[0] + 1
        assert tensor.numpy()[-1] == 49_999
        del tensor
    assert live_resources() == before


def test_share_memory_without_memory_changes_nothing() -> None:
    program = """
        import numpy as np, shmtensor as st
        st.empty(1)
        st.set_limit(0)
        array = np.arange(10_000_000)
        tensor = st.from_numpy(array)
        try:
            tensor.share_memory_()
        except st.OutOfSharedMemory:
            assert not tensor.is_shared()
            assert tensor.data_ptr() == array.ctypes.data
            assert st.stats()["blocks"] == 0
        else:
            raise AssertionError("there was memory")
    """
    output(run_python(program, env={"SHMTENSOR_SHARING_STRATEGY": mp.get_sharing_strategy()}))
