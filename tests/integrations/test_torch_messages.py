"""What tensors of one message, and of several, share in the receiver."""

from __future__ import annotations

import gc
import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

import shmtensor as st

pytestmark = pytest.mark.usefixtures("torch_installed")


def dumps(obj):
    return bytes(ForkingPickler.dumps(obj))


class Lazy:
    """Makes views only while it is pickled."""

    def __init__(self, base):
        self.base = base

    def __reduce__(self):
        return list, (), None, (self.base[first:] for first in range(3))


def test_views_that_are_made_while_the_message_is_pickled_share_one_copy() -> None:
    base = torch.arange(6.0)
    whole, views = pickle.loads(dumps([base, Lazy(base)]))
    whole[2] = 9
    assert [view.tolist()[:3] for view in views] == [[0, 1, 9], [1, 9, 3], [9, 3, 4]]
    assert len({view.untyped_storage()._cdata for view in (whole, *views)}) == 1


class Nested:
    """Pickles another message while it is pickled itself."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return pickle.loads, (dumps([self.tensor, self.tensor[1:]]),)


@pytest.mark.parametrize("size", [4, 100_000])
def test_messages_in_messages_have_copies_of_their_own(size) -> None:
    base = torch.zeros(size)
    before, (first, second), after = pickle.loads(dumps([base, Nested(base), base[1:]]))
    before[1] = 1
    first[1] = 2
    assert after[0] == 1
    assert second[0] == 2
    assert base[1] == 0


def test_threads_send_one_tensor_at_the_same_time() -> None:
    base, found, errors = torch.arange(1000), [], []

    def send():
        try:
            for _ in range(200):
                first, second = pickle.loads(dumps([base, base[1:]]))
                first[1] = -1
                found.append(second[0].item())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert found == [-1] * 800
    assert base[1] == 1


def test_messages_with_one_block_give_one_storage() -> None:
    base = torch.from_dlpack(st.arange(10))
    first, second = dumps(base), dumps([base, base[3:]])
    one = pickle.loads(first)
    two, view = pickle.loads(second)
    assert len({tensor.untyped_storage()._cdata for tensor in (one, two, view)}) == 1
    del one, two, view
    gc.collect()
    again = pickle.loads(dumps(base))
    again[0] = 5
    assert base[0] == 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty_strided((1, 3), (100, 1)),
        lambda: torch.empty_strided((3, 1), (1, 7)),
        lambda: torch.empty_strided((1,), (5,)),
        lambda: torch.zeros(2, 3, 4).to(memory_format=torch.contiguous_format),
        lambda: torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ],
)
def test_strides_arrive(make) -> None:
    tensor = make()
    assert pickle.loads(dumps(tensor)).stride() == tensor.stride()


def test_broadcast_and_two_queues() -> None:
    tensor = torch.arange(5.0)
    with st.Broadcast(4) as broadcast, broadcast.reader() as one, broadcast.reader() as two:
        broadcast.put([tensor, tensor[1:]])
        for reader in (one, two):
            found = reader.get()
            assert found[0].tolist() == [0, 1, 2, 3, 4]
            assert found[0].untyped_storage()._cdata == found[1].untyped_storage()._cdata


def test_memory_of_a_message_that_fails_is_freed() -> None:
    tensor = torch.zeros(1000)
    with st.Queue() as queue:
        blocks = st.stats()["blocks"]
        for _ in range(3):
            with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
                queue.put([tensor, threading.Lock()])
        assert st.stats()["blocks"] == blocks
        queue.put(tensor)
        assert queue.get().equal(tensor)
        assert st.stats()["blocks"] == blocks
