"""multiprocessing's pickler preserves memory, dtype, shape, strides, offset and the read-only flag.

Within a process, the same storage is returned; tests/processes has the tests between processes.
"""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import shmtensor as st
from tests.helpers.dtypes import every_dtype, same_elements, some_array
from tests.helpers.generators import generated, tensors
from tests.helpers.live_resources import live_resources

pytestmark = pytest.mark.usefixtures("strategy")


def send(obj):
    return pickle.loads(ForkingPickler.dumps(obj))


def check(back: st.Tensor, tensor: st.Tensor) -> None:
    assert type(back) is st.Tensor
    assert back.is_shared()
    for name in ("dtype", "shape", "readonly"):
        assert getattr(back, name) == getattr(tensor, name)
    assert back.storage_offset() == tensor.storage_offset()
    assert back.strides == tensor.strides or tensor.size == 0 or tensor.is_contiguous()
    assert back.is_contiguous() == tensor.is_contiguous()
    assert same_elements(back.numpy(), tensor.numpy())


@generated(300)
@given(tensors(shared=True))
def test_any_shared_tensor_round_trips(tensor) -> None:
    back = send(tensor)
    check(back, tensor)
    assert back.storage() is tensor.storage()


@generated(200)
@given(tensors(shared=False))
def test_private_tensor_is_copied_and_stays_private(tensor) -> None:
    content = tensor.storage().tobytes()
    address = tensor.data_ptr()
    back = send(tensor)
    check(back, tensor)
    assert back.storage() is not tensor.storage()
    assert back.storage().tobytes() == content
    assert (tensor.is_shared(), tensor.data_ptr()) == (False, address)


@generated(100)
@given(tensors(), some.lists(some.integers(0, 2), max_size=5))
def test_views_in_one_message_share_their_storage(tensor, choices) -> None:
    views = [tensor, *([tensor.T, tensor[..., None], tensor.as_readonly()][choice] for choice in choices)]
    back = send({"views": views, "storage": tensor.storage()})
    for one, view in zip(back["views"], views, strict=True):
        check(one, view)
        assert one.storage() is back["storage"]


@every_dtype
@pytest.mark.parametrize("wrap", [st.asarray, st.from_numpy])
def test_handle_round_trips_every_dtype(dtype, wrap) -> None:
    tensor = wrap(some_array(dtype))[::-1]
    check(send(tensor), tensor)


def test_handle_size_does_not_depend_on_tensor_size() -> None:
    messages = [ForkingPickler.dumps(st.zeros(size)) for size in (1, 1_000_000)]
    assert len(messages[0]) == len(messages[1]) < 200
    for message in messages:
        pickle.loads(message)


def test_unread_messages_are_counted_until_loaded() -> None:
    before = live_resources()
    tensor = st.zeros(3)
    contents = [ForkingPickler.dumps([tensor, tensor.T, tensor[1:]]) for _ in range(4)]
    assert st.stats()["in_flight"] == before[2] + 12
    for content in contents:
        pickle.loads(content)
    assert st.stats()["in_flight"] == before[2]
    del tensor
    assert live_resources() == before


def test_unread_message_keeps_memory() -> None:
    before = live_resources()
    content = ForkingPickler.dumps(st.full(4, 5.0))
    assert live_resources()[:2] == (before[0] + 1, before[1] + 32)
    assert pickle.loads(content).tolist() == [5] * 4
    assert live_resources() == before


def test_handle_loads_twice_while_block_lives_then_is_stale() -> None:
    tensor = st.ones(3)
    content = ForkingPickler.dumps(tensor)
    first, second = pickle.loads(content), pickle.loads(content)
    assert first.storage() is second.storage() is tensor.storage()
    del tensor, first, second
    with pytest.raises(st.StaleHandleError):
        pickle.loads(content)


@pytest.mark.parametrize("wrap", [st.asarray, st.from_numpy])
def test_storage_handles_round_trip(wrap) -> None:
    storage = wrap(np.arange(50, dtype="u1")).storage()
    back = send(storage)
    assert (back is storage) == storage.is_shared()
    assert back.is_shared()
    assert back.tobytes() == bytes(range(50))


def test_readonly_storage_arrives_readonly() -> None:
    storage = st.frombuffer(b"12345678", "u1").storage()
    back = send(storage)
    assert back.is_shared()
    assert back.readonly
    assert memoryview(back).readonly
    assert back.tobytes() == b"12345678"
