"""`torch.multiprocessing` makes the queues, pipes and contexts of the package."""

from __future__ import annotations

import gc
import multiprocessing
from multiprocessing import queues as std

import pytest
import torch
import torch.multiprocessing as tmp

import shmtensor as st
from shmtensor.multiprocessing import context, queues
from shmtensor.multiprocessing.connection import PipeEnd
from tests.helpers.children import wait_until


@pytest.fixture(autouse=True)
def _installed():
    st.install("torch")
    yield
    st.uninstall("torch")


def fill(queue):
    for _ in range(10):
        queue.put(torch.ones(100_000))


def test_queues_pipes_and_contexts_are_ours_until_uninstall() -> None:
    assert isinstance(tmp.get_context("fork"), context.ForkContext)
    assert tmp.get_context().get_start_method() == multiprocessing.get_start_method()
    assert type(tmp.get_context("server")) is context.ServerContext
    for kind in (tmp.Queue(2), tmp.JoinableQueue(maxsize=2), tmp.SimpleQueue()):
        assert isinstance(kind, (queues.Queue, queues.SimpleQueue))
    assert all(isinstance(end, PipeEnd) for end in tmp.Pipe(duplex=False))
    assert not any(isinstance(end, PipeEnd) for end in multiprocessing.Pipe())
    st.uninstall("torch")
    assert type(tmp.Queue()) is std.Queue
    assert tmp.get_context("fork") is multiprocessing.get_context("fork")
    assert not any(isinstance(end, PipeEnd) for end in tmp.Pipe())


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])
def test_unread_messages_are_freed_with_their_queue(kind) -> None:
    queue = getattr(tmp, kind)()
    producer = tmp.get_context("fork").Process(target=fill, args=(queue,))
    producer.start()
    assert queue.get().sum() == 100_000
    producer.kill()
    producer.join()
    queue.close()
    del queue, producer
    gc.collect()
    wait_until(lambda: st.stats()["blocks"] == 0, 5, lambda: str(st.stats()))
