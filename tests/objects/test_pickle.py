"""Plain pickle copies the elements, out of band with protocol 5; the result is private."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import shmtensor as st
from shmtensor import _core
from tests.helpers.dtypes import every_dtype, same_elements, some_array
from tests.helpers.generators import generated, tensors
from tests.helpers.live_resources import live_resources

pytestmark = pytest.mark.usefixtures("strategy")

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def check(back: st.Tensor, tensor: st.Tensor) -> None:
    assert type(back) is st.Tensor
    assert not back.is_shared()
    assert back.is_contiguous()
    assert back.readonly == tensor.readonly
    assert same_elements(back.numpy(), tensor.numpy())


@generated(300)
@given(tensors(), some.sampled_from(PROTOCOLS))
def test_tensors_round_trip_in_band(tensor, protocol) -> None:
    check(pickle.loads(pickle.dumps(tensor, protocol)), tensor)


@generated(200)
@given(some.lists(tensors(), max_size=4))
def test_tensors_round_trip_out_of_band(many) -> None:
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(many, 5, buffer_callback=buffers.append)
    assert sum(buffer.raw().nbytes for buffer in buffers) == sum(tensor.nbytes for tensor in many)
    for back, tensor in zip(pickle.loads(content, buffers=buffers), many, strict=True):
        check(back, tensor)


@every_dtype
@protocols
def test_pickle_round_trips_every_dtype(dtype, protocol) -> None:
    tensor = st.asarray(some_array(dtype))
    check(pickle.loads(pickle.dumps(tensor, protocol)), tensor)


def test_contiguous_tensor_is_not_copied_out_of_band() -> None:
    tensor = st.asarray(np.arange(1000.0))
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    assert len(content) < 400
    back = pickle.loads(content, buffers=buffers)
    assert back.data_ptr() == tensor.data_ptr()
    assert not pickle.loads(content, buffers=[bytes(buffer) for buffer in buffers]).numpy().flags.writeable


def test_out_of_band_buffers_keep_the_memory() -> None:
    before = live_resources()
    tensor = st.asarray(np.arange(1000.0))
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    del tensor
    back = pickle.loads(content, buffers=buffers)
    del buffers
    assert live_resources()[0] == before[0] + 1
    assert back[999].item() == 999
    del back
    assert live_resources() == before


@protocols
def test_writes_to_unpickled_tensor_do_not_reach_original(protocol) -> None:
    tensor = st.zeros(3)
    back = pickle.loads(pickle.dumps(tensor, protocol))
    back.fill_(1)
    assert tensor.tolist() == [0, 0, 0]


@protocols
def test_pickled_view_contains_only_its_elements(protocol) -> None:
    tensor = st.zeros(100_000)
    content = pickle.dumps(tensor[:10], protocol)
    assert len(content) < 1000
    assert pickle.loads(content).storage().nbytes == 80


@protocols
def test_repeated_tensor_in_one_pickle_keeps_identity(protocol) -> None:
    tensor = st.zeros(3)
    first, second = pickle.loads(pickle.dumps([tensor, tensor], protocol))
    assert first is second


@protocols
def test_storages_round_trip_through_pickle(protocol) -> None:
    content = bytes(range(50))
    shared = st.Storage(50).copy_(content)
    for storage, readonly in (
        (shared, False),
        (st.frombuffer(content, "u1").storage(), True),
        (st.Storage(0), False),
    ):
        back = pickle.loads(pickle.dumps(storage, protocol))
        assert type(back) is st.Storage
        assert back.tobytes() == storage.tobytes()
        assert (back.is_shared(), back.readonly) == (False, readonly)


def test_storage_round_trips_out_of_band() -> None:
    storage = st.Storage(1000).fill_(7)
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(storage, 5, buffer_callback=buffers.append)
    assert len(content) < 300
    assert pickle.loads(content, buffers=buffers).data_ptr() == storage.data_ptr()


def test_corrupted_pickle_never_reads_out_of_bounds() -> None:
    restore, arguments = st.zeros(4).__reduce_ex__(4)
    _, dtype, _, readonly = arguments
    with pytest.raises(ValueError, match="does not fit into a storage of 8 bytes"):
        restore(bytearray(8), dtype, (4,), readonly)


def test_buffer_that_is_a_view_of_a_tensor_is_shared() -> None:
    """As a transport gives it that receives handles; the tensor keeps its dtype, shape and flag."""
    for tensor in (st.asarray(np.arange(12.0).reshape(3, 4))[1:], st.asarray(np.ones(5)).as_readonly()):
        buffers: list[pickle.PickleBuffer] = []
        content = pickle.dumps([tensor, tensor.storage()], 5, buffer_callback=buffers.append)
        views = [memoryview(_core.tensor_over_buffer(buffer.raw())) for buffer in buffers]
        back, storage = pickle.loads(content, buffers=views)
        assert np.array_equal(back.numpy(), tensor.numpy())
        for name in ("shape", "dtype", "readonly"):
            assert getattr(back, name) == getattr(tensor, name)
        assert back.data_ptr() == tensor.data_ptr()
        assert back.is_shared()
        assert storage.is_shared()
        assert storage.readonly == tensor.storage().readonly
