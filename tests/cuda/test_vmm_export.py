"""Zero-copy export of another library's virtual memory, in chunks (torch's expandable segments)."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers
from tests.cuda.device import Array
from tests.cuda.harness import case
from tests.cuda.segment import Part, Segment
from tests.cuda.workers import Pair
from tests.helpers.children import manager_pid
from tests.observer.processes import descriptors

VALUES = np.arange(3000.0)


def across(segment: Segment, border: int) -> Part:
    """Return an array that crosses the end of the chunk of that number."""
    return Part(segment, border * segment.chunk + segment.chunk - 8000, VALUES)


def owner_is_released() -> bool:
    return Segment.alive == 0


@case
def test_array_over_several_chunks_is_shared() -> None:
    segment = Segment(3)
    part = across(segment, 1)
    tensor = st.asarray(part, copy=False)
    assert tensor.data_ptr() == part.pointer
    pair = Pair(workers.echo)
    pair.put(tensor)
    assert pair.get().storage() is tensor.storage()
    assert part.read().tolist() == (VALUES + 1).tolist()
    pair.put(tensor[-2:])
    assert pair.get().tolist() == [3000, 3001]
    pair.end()
    before = st.stats()["blocks"]
    del tensor, part, segment
    device.wait_until(owner_is_released, "the owner")
    assert st.stats()["blocks"] == before - 1
    if device.simulated:
        device.wait_until(lambda: device.used_bytes() == 0, "what descriptors kept")


def compare(inbox: Any, outbox: Any) -> None:
    first, second = inbox.get(), inbox.get()
    outbox.put([int(np.array_equal(t.cpu().numpy(), VALUES)) for t in (first, second)])
    del first, second
    gc.collect()
    outbox.put(True)
    inbox.get()


@pytest.mark.thorough
@case
def test_chunk_is_exported_once_and_its_number_reused() -> None:
    segment = Segment(3)
    for turn in range(4):
        first, second = st.asarray(across(segment, 0)), st.asarray(across(segment, 1))
        assert not device.simulated or device.calls("cuMemExportToShareableHandle") == 3 * (turn + 1)
        pair = Pair(compare)
        pair.put(first)
        pair.put(second)
        assert pair.get() == [1, 1]
        assert pair.get()
        pair.end()
        del first, second
        device.wait_until(lambda: shared_chunks() == 0, "the chunks")


def shared_chunks() -> int:
    """Return how many descriptors of device memory the manager has (simulator), or could have."""
    st.cuda.ipc_collect()
    if not device.simulated:
        return 0
    targets = descriptors(manager_pid(os.environ["SHMTENSOR_SESSION"])).values()
    return sum(os.environ["SHMTENSOR_SIM_DIR"] in target for target in targets)


@case
def test_killed_reader_and_unread_message_leak_nothing() -> None:
    segment = Segment(2)
    inbox, outbox = workers.SPAWN.SimpleQueue(), workers.SPAWN.SimpleQueue()
    inbox.put(st.asarray(across(segment, 0)))
    reader = workers.SPAWN.Process(target=workers.die, args=(inbox, outbox), daemon=True)
    reader.start()
    assert workers.take(outbox, workers.TIMEOUT) == VALUES.tolist()
    del segment
    gc.collect()
    time.sleep(0.05)
    assert Segment.alive == 1, "the reader keeps it"
    os.kill(reader.pid, signal.SIGKILL)
    reader.join(workers.TIMEOUT)
    device.wait_until(owner_is_released, "after the reader's death")
    _unread, writer = multiprocessing.Pipe(duplex=False)
    writer.send(st.asarray(across(Segment(2), 0)))
    gc.collect()
    assert Segment.alive == 1, "the message keeps it"
    st.gc(0)
    device.wait_until(owner_is_released, "after the tickets are consumed")


def produce(outbox: Any, all_sent: Any) -> None:
    segment = Segment(2)
    for _ in range(2):
        outbox.put(st.asarray(across(segment, 0)))
    all_sent.set()
    time.sleep(workers.TIMEOUT)


@case
def test_exported_array_outlives_its_owner() -> None:
    """Unlike a legacy handle, a descriptor keeps the memory allocated, and the manager has one."""
    outbox, all_sent = workers.SPAWN.SimpleQueue(), workers.SPAWN.Event()
    process = workers.SPAWN.Process(target=produce, args=(outbox, all_sent), daemon=True)
    process.start()
    assert all_sent.wait(workers.TIMEOUT)
    os.kill(process.pid, signal.SIGKILL)
    process.join(workers.TIMEOUT)
    tensor = outbox.get()
    assert tensor.tolist() == VALUES.tolist()
    assert outbox.get().storage() is not tensor.storage(), "another export of the same array"
    del tensor
    gc.collect()
    if device.simulated:
        device.wait_until(lambda: st.gc(0) == 0 and device.used_bytes() == 0, "the dead owner's memory")


@case
def test_new_manager_learns_user_chunks() -> None:
    tensor = st.asarray(across(Segment(2), 0))
    manager = manager_pid(os.environ["SHMTENSOR_SESSION"])
    os.kill(manager, signal.SIGKILL)
    pair = Pair(workers.answer)
    pair.put(tensor)
    assert pair.get()[0][0] == VALUES.tolist()
    pair.end()
    assert shared_chunks() == (2 if device.simulated else 0)
    del tensor
    device.wait_until(owner_is_released, "the owner")
    device.wait_until(lambda: shared_chunks() == 0, "the chunks")


@case
def test_unshareable_virtual_memory_is_rejected() -> None:
    segment = Segment(2, handle_types=0)
    part = across(segment, 0)
    with pytest.raises(ValueError, match=r"cannot be shared without a copy: ."):
        st.asarray(part, copy=False)
    copied = st.asarray(part)
    assert copied.data_ptr() != part.pointer
    assert copied.tolist() == VALUES.tolist()
    whole, behind = Segment(2), Segment(1)  # the driver may place one directly after the other
    part = Part(whole, whole.size - 16, np.zeros(2))
    part.shape = (3,)
    before = st.stats()["blocks"]
    with pytest.raises(ValueError, match="past the end of its allocation"):
        st.asarray(part, copy=False)
    with pytest.raises(st.CudaError, match="cannot copy 24 bytes"):  # what cannot be shared is copied
        st.asarray(part)
    assert st.stats()["blocks"] == before
    del part, whole, behind
    gc.collect()
    assert Segment.alive == 1
    assert Array.alive == 0
