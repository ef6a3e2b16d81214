"""Promises 13 and 14: tensors arrive as sent, a block is one Storage, and any process may forward it."""

from __future__ import annotations

import gc
import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end, running
from tests.helpers.queues import take, until_none


def describe(inbox, outbox) -> None:
    for tensor in until_none(inbox):
        outbox.put(
            (
                tensor.shape,
                tensor.strides,
                tensor.dtype,
                tensor.storage_offset(),
                tensor.readonly,
                tensor.tolist(),
            )
        )


VIEWS = {
    "whole": lambda t: t,
    "row": lambda t: t[1],
    "column": lambda t: t[:, 2],
    "backwards": lambda t: t[::-1, ::-2],
    "transposed": lambda t: t.T,
    "broadcast": lambda t: st.Tensor(t.storage(), t.dtype, (3, 4), (0, 8)),
    "element": lambda t: t[2, 3],
    "none": lambda t: t[1:1],
    "read-only": lambda t: t[1:].as_readonly(),
    "other dtype": lambda t: t.view("uint16"),
    "big-endian": lambda t: t.view(">i8"),
    "record": lambda t: t.view(np.dtype([("a", "<i4"), ("b", "<i4")])),
    "many axes": lambda t: t.reshape(*[1] * 20, 4, 6),
}


def test_views_keep_shape_strides_and_offset(ctx, strategy) -> None:
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    with running(ctx, describe, inbox, outbox):
        base = st.asarray(np.arange(24).reshape(4, 6))
        for name, make in VIEWS.items():
            view = make(base)
            inbox.put(view)
            there = take(outbox)
            here = (view.shape, view.strides, view.dtype, view.storage_offset(), view.readonly, view.tolist())
            assert there == here, name
        inbox.put(None)


def storages_are_one(inbox, outbox) -> None:
    views = inbox.get()
    outbox.put(len({id(view.storage()) for view in views}))


def test_views_in_one_message_share_one_storage(ctx, strategy) -> None:
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    with running(ctx, storages_are_one, inbox, outbox):
        shared = st.ones((3, 3))
        private = st.from_numpy(np.ones((3, 3)))
        inbox.put([shared, shared[0], shared.T, private, private[1], private[:, 1]])
        assert take(outbox) == 2


def test_live_block_has_one_storage(strategy) -> None:
    tensor = st.ones(5)
    message = ForkingPickler.dumps([tensor, tensor.storage()])
    back, storage = pickle.loads(message)
    assert back.storage() is storage is tensor.storage()
    del back, storage, tensor
    gc.collect()
    with pytest.raises(st.StaleHandleError):
        pickle.loads(message)


def pass_on(inbox, outbox) -> None:
    for tensor in until_none(inbox):
        tensor += 1
        outbox.put(tensor)


def keep_and_pass_on(inbox, outbox, done) -> None:
    kept = inbox.get()
    outbox.put(kept)
    done.get()


def test_received_tensor_is_forwarded_and_returned(ctx, strategy) -> None:
    """Returned from A through B and C, it is A's own object; D gets the same bytes after A released it."""
    queues = [ctx.SimpleQueue() for _ in range(3)]
    processes = [ctx.Process(target=pass_on, args=(queues[i], queues[i + 1])) for i in range(2)]
    for process in processes:
        process.start()
    tensor = st.zeros(3)
    queues[0].put(tensor)
    back = take(queues[2])
    assert back.storage() is tensor.storage()
    assert tensor.tolist() == [2, 2, 2]
    queues[0].put(tensor)
    del tensor, back
    gc.collect()
    assert take(queues[2]).tolist() == [4, 4, 4]
    for queue in queues[:2]:
        queue.put(None)
    for process in processes:
        end(process)


def make_and_send(queue) -> None:
    queue.put(st.full(4, 11.0))


def test_forwarded_tensor_outlives_its_creator(ctx, strategy) -> None:
    """Created by a process that ends, held by a second one, and forwarded to a third."""
    first, second, done = ctx.SimpleQueue(), ctx.SimpleQueue(), ctx.SimpleQueue()
    maker = ctx.Process(target=make_and_send, args=(first,))
    holder = ctx.Process(target=keep_and_pass_on, args=(first, second, done))
    maker.start()
    end(maker)
    holder.start()
    tensor = take(second)
    done.put(None)
    end(holder)
    assert tensor.tolist() == [11] * 4
    tensor += 1
    assert tensor.tolist() == [12] * 4


def test_one_tensor_through_many_queues(strategy) -> None:
    queues = [mp.SimpleQueue() for _ in range(10)]
    tensor = st.ones(2)
    for queue in queues:
        for _ in range(40):  # more than one ticket group holds
            queue.put(tensor)
    storage = tensor.storage()
    del tensor
    for queue in queues:
        for _ in range(40):
            assert take(queue).storage() is storage
        queue.close()
    assert st.stats()["in_flight"] == 0
