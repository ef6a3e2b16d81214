"""Promise 16: read-only sharing is real."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.children import end, running
from tests.helpers.queues import take


def try_to_write(inbox, outbox) -> None:
    tensor = inbox.get()
    refused = []
    for write in (
        lambda: tensor.fill_(1),
        lambda: tensor.__setitem__(0, 1),
        lambda: tensor.numpy().__setitem__(0, 1),
        lambda: tensor.storage().fill_(1),
        lambda: np.add(tensor, 1, out=tensor),
        lambda: memoryview(tensor).__setitem__(0, 1.0),
    ):
        try:
            write()
        except (ValueError, TypeError):
            refused.append(True)
    address = tensor.data_ptr()
    with open("/proc/self/maps") as maps:
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if low <= address < high:
                rights = line.split()[1]
    outbox.put((len(refused), rights, tensor.numpy().flags.writeable, tensor.storage().readonly))


@pytest.mark.parametrize("made", ["before", "after"])  # a forked child has what was made before
def test_receiver_s_mapping_is_not_writable(ctx, strategy, made) -> None:
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    tensor = st.zeros(8)
    with running(ctx, try_to_write, inbox, outbox):
        tensor = tensor if made == "before" else st.zeros(8)
        inbox.put(tensor.as_readonly())
        assert take(outbox) == (6, "r--s", False, True)
    assert tensor.tolist() == [0] * 8


def poke(queue) -> None:
    faulthandler.disable()  # the fault is expected: no report
    tensor = queue.get()
    ctypes.memset(tensor.data_ptr(), 1, 8)


@pytest.mark.parametrize("made", ["before", "after"])
def test_write_from_c_code_faults(ctx, strategy, made) -> None:
    queue = ctx.SimpleQueue()
    tensor = st.zeros(8)
    with running(ctx, poke, queue) as process:
        tensor = tensor if made == "before" else st.zeros(8)
        queue.put(tensor.as_readonly())
    assert process.exitcode == -signal.SIGSEGV
    assert tensor.tolist() == [0] * 8


def watch(inbox, outbox) -> None:
    tensor = inbox.get()
    outbox.put("ready")
    inbox.get()
    outbox.put(tensor.tolist())


def test_reader_sees_the_owner_s_writes(ctx, strategy) -> None:
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    with running(ctx, watch, inbox, outbox):
        tensor = st.zeros(3)
        inbox.put(tensor.as_readonly())
        assert take(outbox) == "ready"
        tensor.fill_(6)
        inbox.put(None)
        assert take(outbox) == [6, 6, 6]


def both_ways(inbox, outbox) -> None:
    reader = inbox.get()
    writer = inbox.get()
    writer.fill_(2)
    outbox.put((reader.tolist(), reader.readonly, writer.readonly))


def test_writable_handle_grants_write_access(ctx, strategy) -> None:
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    with running(ctx, both_ways, inbox, outbox):
        tensor = st.zeros(2)
        inbox.put(tensor.as_readonly())
        inbox.put(tensor)
        assert take(outbox) == ([2, 2], True, False)


def send_on(inbox, outbox) -> None:
    outbox.put(inbox.get())
    os._exit(0)


def test_read_only_handle_is_forwarded_read_only(ctx, strategy) -> None:
    first, second, answers = ctx.SimpleQueue(), ctx.SimpleQueue(), ctx.SimpleQueue()
    middle = ctx.Process(target=send_on, args=(first, second))
    last = ctx.Process(target=try_to_write, args=(second, answers))
    middle.start()
    last.start()
    tensor = st.zeros(8)
    first.put(tensor.as_readonly())
    assert take(answers)[0] == 6
    end(middle)
    end(last)
