"""The order of work: sends that wait for an event or for the device, and our own copies."""

from __future__ import annotations

import gc
import os
import pickle
import signal
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers
from tests.cuda.device import Array
from tests.cuda.harness import case
from tests.cuda.workers import Pair


class Work:
    """A kernel of another library: it runs until the test ends it, then sets bytes."""

    def __init__(self, tensor: Any, name: str = "latch") -> None:
        self.tensor, self.latch = tensor, device.Latch(name).close()
        driver = device.library()
        device.check(
            driver.cuMemsetD8Async(
                device.ctypes.c_uint64(tensor.data_ptr()), 7, device.ctypes.c_size_t(tensor.nbytes), None
            )
        )

    def end(self) -> None:
        self.latch.open()


def started(target: Any, first: Any) -> Pair:
    """Start a child that has initialized the driver and answered, so that it answers quickly."""
    pair = Pair(target)
    pair.put(first)
    pair.get()
    return pair


def events() -> int:
    """Return the number of driver events of this process (simulator only)."""
    return device.calls("cuEventCreate") - device.calls("cuEventDestroy_v2")


@case
def test_send_does_not_block_and_reader_waits_for_work() -> None:
    st.cuda.set_sync("event")
    assert st.cuda.get_sync() == "event"
    tensor = st.zeros(4, "u1", device="cuda")
    pair = started(workers.answer, tensor)
    work = Work(tensor)
    waits = device.calls("cuCtxSynchronize") if device.simulated else 0
    pair.put(tensor)  # with "host" this would block indefinitely
    assert not device.simulated or device.calls("cuCtxSynchronize") == waits
    assert not pair.outbox._reader.poll(0.3), "the reader has read too early"
    work.end()
    assert pair.get() == [([7, 7, 7, 7], "cuda:0", False)]
    pair.end()


@pytest.mark.thorough
@case
def test_every_receive_waits_even_for_known_tensor() -> None:
    """torch waits only at the first receive."""
    st.cuda.set_sync("event")
    pair = Pair(keep_and_answer)
    tensor = st.zeros(2, "u1", device="cuda")
    for turn in range(3):
        tensor.fill_(turn)
        work = Work(tensor, f"latch{turn}")
        pair.put([tensor, tensor[1:], tensor.storage()])
        assert not pair.outbox._reader.poll(0.2), f"turn {turn}: the reader has read too early"
        work.end()
        assert pair.get() == [[7, 7], [7], [7, 7]]
    pair.end()


def keep_and_answer(inbox: Any, outbox: Any) -> None:
    kept = []
    while (item := inbox.get()) is not None:
        kept.append(item)
        tensors = [st.Tensor(x, "u1", x.nbytes) if isinstance(x, st.Storage) else x for x in item]
        outbox.put([tensor.tolist() for tensor in tensors])


@pytest.mark.thorough
@case
def test_forwarded_tensor_is_ordered_for_third_process() -> None:
    """The second process sends with "host": it waits until the tensor is written."""
    st.cuda.set_sync("event")
    tensor = st.zeros(2, "u1", device="cuda")
    first, second = started(workers.relay, tensor), Pair(workers.answer)
    work = Work(tensor)
    first.put(tensor)
    assert not first.outbox._reader.poll(0.3), "the second process has forwarded it too early"
    work.end()
    second.put(first.get())
    assert second.get() == [([7, 7], "cuda:0", False)]
    first.end()
    second.end()


@case
def test_event_covers_user_memory_and_own_messages() -> None:
    st.cuda.set_sync("event")
    queue = workers.SPAWN.SimpleQueue()
    array = Array(np.zeros(3, "u1"))
    tensor = st.asarray(array)
    work = Work(tensor)
    queue.put(tensor)
    again = queue.get()
    assert again.storage() is tensor.storage()
    work.end()
    assert again.tolist() == [7, 7, 7]
    del again, tensor, array, work
    device.wait_until(lambda: Array.alive == 0, "the owner")


@case
def test_released_events_are_reused() -> None:
    st.cuda.set_sync("event")
    pair = Pair(workers.answer)
    tensor = st.zeros(2, "u1", device="cuda")
    tensor.data_ptr()
    for _ in range(20):
        pair.put(tensor)
        assert pair.get() == [([0, 0], "cuda:0", False)]
    pair.end()
    if device.simulated:
        assert events() <= 4, "each of 20 messages had an event; few exist at a time"
    device.wait_until(lambda: collected() == 0, "the events")


def collected() -> int:
    from shmtensor._cuda import events as cuda_events

    st.cuda.ipc_collect()
    return len(cuda_events._own)


@case
def test_events_of_unread_messages_and_killed_readers_are_reused() -> None:
    st.cuda.set_sync("event")
    inbox, outbox = workers.SPAWN.SimpleQueue(), workers.SPAWN.SimpleQueue()
    tensor = st.zeros(2, "u1", device="cuda")
    tensor.data_ptr()
    reader = workers.SPAWN.Process(target=workers.die, args=(inbox, outbox), daemon=True)
    reader.start()
    inbox.put(tensor)
    assert workers.take(outbox, workers.TIMEOUT) == [0, 0]
    os.kill(reader.pid, signal.SIGKILL)
    reader.join(workers.TIMEOUT)
    unread, writer = workers.SPAWN.Pipe(duplex=False)
    writer.send(tensor)
    inbox.put(tensor)
    gc.collect()
    assert collected() >= 1
    st.gc(0)
    del inbox, unread
    device.wait_until(lambda: collected() == 0, "the events")


@case
def test_event_is_kept_until_waiting_stream_passes_it() -> None:
    st.cuda.set_sync("event")
    tensor = st.zeros(2, "u1", device="cuda")
    pair = started(workers.hold, tensor)
    work = Work(tensor)
    pair.put(tensor)
    assert pair.get() == 2, "the reader has received it, and its stream waits"
    assert collected() == 1
    work.end()
    device.wait_until(lambda: wait_is_complete(pair, tensor) and collected() <= 1, "the event")
    pair.end()
    device.wait_until(lambda: collected() == 0, "the last event")


def wait_is_complete(pair: Pair, tensor: Any) -> bool:
    pair.put(tensor)  # at a receive, the reader checks which events it has waited for
    return pair.get() > 2


@pytest.mark.thorough
@case
def test_send_synchronizes_where_events_are_unsupported() -> None:
    from shmtensor._cuda import events as cuda_events

    cuda_events.MOST = 0
    st.cuda.set_sync("event")
    pair = Pair(workers.answer)
    tensor = st.zeros(2, "u1", device="cuda")
    work = Work(tensor)
    work.end()
    pair.put(tensor)
    assert pair.get() == [([7, 7], "cuda:0", False)]
    with pytest.raises(st.CudaError, match="0 events of this process are still in use"):
        st.cuda.Event()
    pair.end()
    os.environ["SHMTENSOR_SIM_ATTRIBUTES"] = "125=0"  # the driver of this process has been queried already
    other = Pair(make_an_event)
    assert not device.simulated or "does not support interprocess events" in other.get()
    other.end()
    st.cuda.set_sync("host")
    assert st.cuda.get_sync() == "host"
    with pytest.raises(ValueError, match="'fence'"):
        st.cuda.set_sync("fence")  # type: ignore[arg-type]


def make_an_event(inbox: Any, outbox: Any) -> None:
    try:
        outbox.put(st.cuda.Event().device)
    except st.CudaUnavailable as error:
        outbox.put(str(error))
    inbox.get()


def send_and_end(outbox: Any) -> None:
    st.cuda.set_sync("event")
    tensor = st.zeros(2, device="cuda")
    tensor.data_ptr()
    outbox.put(tensor)


@pytest.mark.thorough
@case
def test_event_of_exited_process_raises_producer_gone() -> None:
    outbox = workers.SPAWN.SimpleQueue()
    process = workers.SPAWN.Process(target=send_and_end, args=(outbox,))
    process.start()
    process.join(workers.TIMEOUT)
    before = st.stats()["blocks"] if st.stats() else 0
    with pytest.raises(st.ProducerGone, match=rf"process {process.pid}, which made it, has ended"):
        outbox.get()
    gc.collect()
    device.wait_until(lambda: st.stats()["blocks"] <= before, "what the message carried")


@pytest.mark.thorough
@case
def test_event_is_opened_without_the_lock_of_events() -> None:
    """The call can wait for the end of the maker; sends of other threads must not."""
    from shmtensor import _core
    from shmtensor._cuda import events as cuda_events

    locked, open_event = [], _core.CudaEvent

    def spy(description: bytes) -> Any:
        locked.append(cuda_events._lock().locked())
        return open_event(description)

    _core.CudaEvent = spy  # type: ignore[assignment,misc]
    pair = Pair(make_and_send_event)
    assert pair.get().query()
    assert locked == [False]
    pair.end()


def make_and_send_event(inbox: Any, outbox: Any) -> None:
    event = st.cuda.Event()
    outbox.put(event)
    inbox.get()


def wait_and_report(inbox: Any, outbox: Any) -> None:
    event = inbox.get()
    outbox.put(event.query())
    event.synchronize()
    outbox.put((event.query(), event.device))
    back = st.cuda.Event()
    back.record()
    outbox.put([event, back])
    inbox.get()


@pytest.mark.thorough
@case
def test_user_event_is_sent_to_other_process() -> None:
    pair = Pair(wait_and_report)
    event = st.cuda.Event()
    assert event.query(), "an event that was never recorded is complete"
    tensor = st.zeros(2, "u1", device="cuda")
    work = Work(tensor)
    event.record()
    pair.put(event)
    assert not pair.get(), "it has completed before the work"
    work.end()
    assert pair.get() == (True, "cuda:0")
    mine, theirs = pair.get()
    assert mine is event
    theirs.wait()
    theirs.synchronize()
    assert theirs.query()
    with pytest.raises(TypeError, match="only be sent"):
        pickle.dumps(event)
    with pytest.raises(ValueError, match="GPU"):
        st.cuda.Event("cpu")
    pair.end()


@case
def test_forged_event_description_is_rejected() -> None:
    """Regression: a number that this process had not issued raised KeyError."""
    from shmtensor._cuda import events as cuda_events

    for _ in range(20):  # the number's bytes may occur there a second time
        event = st.cuda.Event()
        place = memoryview(event._block).cast("B")
        good = bytes(place)
        number = event._number.to_bytes(8, "little")
        if good.count(number) == 1:
            break
    assert good.count(number) == 1
    _, (block,) = cuda_events._reduce_event(event)
    for bad in (good.replace(number, (event._number + 1).to_bytes(8, "little")), bytes(len(good))):
        cuda_events._events.clear()
        place[:] = bad
        with pytest.raises(st.StaleHandleError, match="cannot use an event"):
            cuda_events.rebuild_event(block)
    place[:] = good
    assert cuda_events.rebuild_event(block).query()


@case
def test_stream_argument_accepts_numbers_and_protocol() -> None:
    driver = device.library()
    stream = device.ctypes.c_void_p()
    device.check(driver.cuStreamCreate(device.ctypes.byref(stream), 1))

    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, stream.value

    event = st.cuda.Event()
    event.record(Stream())
    event.wait(stream.value)
    event.synchronize()
    device.check(driver.cuStreamSynchronize(stream))


@case
def test_copies_wait_for_work_of_other_processes() -> None:
    """Regression: copies ran in a stream without synchronization and read the contents too early."""
    import threading

    for copy in (
        lambda tensor: tensor.tolist(),
        lambda tensor: tensor.clone().tolist(),
        lambda tensor: st.zeros(2, "u1", device="cuda").copy_(tensor).tolist(),
        lambda tensor: tensor.fill_(7).tolist(),
    ):
        tensor = st.zeros(2, "u1", device="cuda")
        work = Work(tensor)
        threading.Timer(0.05, work.end).start()
        assert copy(tensor) == [7, 7]
        del tensor, work  # waits, too
