"""The example with vLLM's MessageQueue: order, completeness, deaths, timeouts, cancelled calls, leaks."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

import shmtensor as st
from examples.vllm_message_queue import MessageQueue
from tests.helpers.children import fork, wait_until
from tests.helpers.engine_and_ranks import SECONDS, adaptor, answers_of_ranks
from tests.helpers.live_resources import assert_no_leaks

pytestmark = pytest.mark.usefixtures("torch_uninstalled")


@assert_no_leaks()
def test_all_ranks_get_all_messages_in_order() -> None:
    messages = [(number, np.full(100_000, number, "u1"), None) for number in range(40)]
    answers = answers_of_ranks(adaptor, 4, messages)
    assert answers == [(rank, number, 100_000.0 * number, None) for number in range(40) for rank in range(4)]


@assert_no_leaks()
def test_handle_is_plain_data() -> None:
    """torch.distributed and Ray send it by their own picklers, and several ranks read one pickle."""
    writer = MessageQueue(2, 2)
    handle = pickle.dumps(writer.export_handle())
    readers = [MessageQueue.create_from_handle(pickle.loads(handle), rank) for rank in range(2)]
    writer.broadcast_object("message")
    assert [reader.broadcast_object() for reader in readers] == ["message"] * 2


@assert_no_leaks()
def test_writer_goes_on_without_a_killed_reader() -> None:
    writer = MessageQueue(2, 2, max_chunks=2)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)

    def read_one_and_stay() -> None:
        other = MessageQueue.create_from_handle(writer.export_handle(), 1)
        other.dequeue(timeout=SECONDS)
        time.sleep(SECONDS)

    child = fork(read_one_and_stay)
    writer._broadcast.wait_for_readers(2, timeout=SECONDS)
    for number in range(2):
        writer.enqueue(number, timeout=SECONDS)
        assert reader.dequeue(timeout=SECONDS) == number
    wait_until(lambda: writer._broadcast.lag() == 1)
    writer.enqueue(2, timeout=SECONDS)
    with pytest.raises(TimeoutError):
        writer.enqueue(3, timeout=0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for number in range(3, 20):
        writer.enqueue(number, timeout=SECONDS)
        assert reader.dequeue(timeout=SECONDS) == number - 1


def test_timeouts_raise_as_those_of_vllm() -> None:
    writer = MessageQueue(1, 1, max_chunks=1)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    with pytest.raises(TimeoutError):
        reader.dequeue(timeout=0.01)
    writer.enqueue("first")
    with pytest.raises(TimeoutError):
        writer.enqueue("second", timeout=0.01)
    assert reader.dequeue(timeout=0) == "first"


@pytest.mark.parametrize("side", ["reader", "writer"])
@assert_no_leaks()
def test_shutdown_cancels_a_call_that_waits(side) -> None:
    writer = MessageQueue(1, 1, max_chunks=1)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    writer.enqueue("kept")
    if side == "reader":
        reader.dequeue()
    seen: list[Exception] = []

    def wait() -> None:
        try:
            reader.dequeue(indefinite=True) if side == "reader" else writer.enqueue("no room")
        except RuntimeError as error:
            seen.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    (reader if side == "reader" else writer).shutdown()
    thread.join(SECONDS)
    assert [str(error) for error in seen] == ["cancelled"]
    if side == "writer":
        assert reader.dequeue(timeout=SECONDS) == "kept", "others read what was put"


def test_name_is_removed_when_all_ranks_are_ready_or_the_writer_is_deleted() -> None:
    writer = MessageQueue(1, 1)
    handle = writer.export_handle()
    reader = MessageQueue.create_from_handle(handle, 0)
    thread = threading.Thread(target=reader.wait_until_ready)
    thread.start()
    writer.wait_until_ready()
    thread.join(SECONDS)
    assert not st.unpublish(handle.name)
    unready = MessageQueue(1, 1)
    name = unready.export_handle().name
    del unready
    assert not st.unpublish(name)


@assert_no_leaks()
def test_killed_writer_leaves_readers_their_messages() -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def write() -> None:
        writer = MessageQueue(1, 1)
        theirs.send(writer.export_handle())
        writer.wait_until_ready()
        writer.enqueue(np.arange(100_000))
        theirs.send("sent")
        time.sleep(SECONDS)

    child = fork(write)
    assert ours.poll(SECONDS)
    reader = MessageQueue.create_from_handle(ours.recv(), 0)
    reader.wait_until_ready()
    assert ours.poll(SECONDS)
    assert ours.recv() == "sent"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert reader.dequeue(timeout=SECONDS).sum() == sum(range(100_000))
    ours.close()
    theirs.close()


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="2 readers are on other hosts"):
        MessageQueue(3, 1)
    writer = MessageQueue(1, 1, [3])
    with pytest.raises(ValueError, match="rank 0 is not a local reader"):
        MessageQueue.create_from_handle(writer.export_handle(), 0)
    with pytest.raises(AssertionError):
        writer.dequeue()
    with pytest.raises(AssertionError):
        MessageQueue.create_from_handle(writer.export_handle(), 3).enqueue(0)
