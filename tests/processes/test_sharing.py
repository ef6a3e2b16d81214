"""torch's tests of `multiprocessing` for CPU tensors, for each strategy and start method."""

from __future__ import annotations

import numpy as np

import shmtensor as st
from tests.helpers.children import end, running
from tests.helpers.leaks import shm_names
from tests.helpers.queues import take, until_none


def fill_and_answer(inbox, outbox) -> None:
    tensor, column = inbox.get()
    tensor.fill_(7)
    column.fill_(4)
    outbox.put("filled")
    again = st.full((3, 4), 5.0)
    for _ in range(2):
        outbox.put(again)
    inbox.get()


def test_writes_are_visible_and_a_tensor_sent_twice_is_one_storage(ctx, strategy) -> None:
    for _ in range(3):
        inbox, outbox = ctx.Queue(), ctx.Queue()
        with running(ctx, fill_and_answer, inbox, outbox):
            tensor = st.zeros((5, 5))
            inbox.put([tensor, tensor[:, 1]])
            assert take(outbox) == "filled"
            expected = np.full((5, 5), 7.0)
            expected[:, 1] = 4
            np.testing.assert_array_equal(tensor, expected)
            first, second = take(outbox), take(outbox)
            assert first.storage() is second.storage()
            np.testing.assert_array_equal(first, np.full((3, 4), 5.0))
            inbox.put("done")
        inbox.close()
        outbox.close()
        inbox.join_thread()
        outbox.join_thread()


def test_name_exists_as_long_as_its_storage(ctx) -> None:
    """The name is removed with its process's arena: names do not grow with tensors."""
    import shmtensor.multiprocessing as mp

    mp.set_sharing_strategy("file_system")
    try:
        tensors = [st.ones(1000) for _ in range(50)]
        session = st.stats()["session"]
        assert len(shm_names(session)) <= 1
        assert len(tensors) == 50
    finally:
        mp.set_sharing_strategy("file_descriptor")


def echo(inbox, outbox) -> None:
    for tensor in until_none(inbox):
        outbox.put(tensor)


def test_empty_tensors_of_every_kind_are_sent(ctx, strategy) -> None:
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    with running(ctx, echo, inbox, outbox):
        for tensor in (st.zeros(0), st.empty((0, 3), np.int64), st.empty((3, 0, 2)), st.zeros(())):
            inbox.put(tensor)
            back = take(outbox)
            assert (back.shape, back.dtype) == (tensor.shape, tensor.dtype)
            assert back.storage() is tensor.storage()
        inbox.put(None)


def sum_and_forward(inbox, outbox) -> None:
    for tensor in until_none(inbox):
        tensor += 1
        outbox.put(tensor)
        del tensor
    outbox.put(None)


def test_many_small_tensors_through_three_processes(ctx, strategy) -> None:
    count = 3000
    queues = [ctx.SimpleQueue() for _ in range(3)]
    processes = [ctx.Process(target=sum_and_forward, args=(queues[i], queues[i + 1])) for i in range(2)]
    for process in processes:
        process.start()
    total = 0
    for i in range(count):
        queues[0].put(st.full((), i))
        if i >= 100:  # keep the pipes from filling up
            total += take(queues[2]).item()
    queues[0].put(None)
    for tensor in until_none(queues[2]):
        total += tensor.item()
    assert total == sum(range(count)) + 2 * count
    for process in processes:
        end(process)
