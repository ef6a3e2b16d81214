"""GPU memory that a user owns, shared by zero-copy export."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers
from tests.cuda.device import Array
from tests.cuda.harness import case, simulated_case
from tests.cuda.workers import Pair


def owner_released() -> bool:
    """Return True if the owner of the only array was released without an explicit collection."""
    return Array.alive == 0


@case
def test_user_array_is_shared_without_copy() -> None:
    array = Array(np.arange(6.0).reshape(2, 3), margin=512)
    tensor = st.asarray(array)
    assert (tensor.device, tensor.shape, tensor.dtype) == ("cuda:0", (2, 3), np.float64)
    assert tensor.is_shared()
    assert tensor.data_ptr() == array.pointer
    pair = Pair(workers.echo)
    pair.put(tensor)
    assert pair.get().storage() is tensor.storage()
    assert array.read().tolist() == (np.arange(6.0).reshape(2, 3) + 1).tolist()
    pair.put(tensor[1])
    assert pair.get().tolist() == [5, 6, 7]
    assert array.read()[1].tolist() == [5, 6, 7]
    pair.end()
    del tensor, array
    device.wait_until(owner_released, "the owner")


@pytest.mark.thorough
@case
def test_array_owner_lives_exactly_as_long_as_holders() -> None:
    """Holders are an unread message and another process, which is then killed."""
    for end in ("release", "kill"):
        inbox, outbox = workers.SPAWN.SimpleQueue(), workers.SPAWN.SimpleQueue()
        inbox.put(st.asarray(Array([1.0, 2.0])))
        gc.collect()
        time.sleep(0.05)
        assert Array.alive == 1, "the message keeps it"
        process = workers.SPAWN.Process(target=workers.die, args=(inbox, outbox), daemon=True)
        if end == "release":
            process = workers.SPAWN.Process(target=take_and_drop, args=(inbox, outbox), daemon=True)
        process.start()
        assert workers.take(outbox, workers.TIMEOUT) == [1, 2]
        time.sleep(0.05)
        assert Array.alive == 1, "the other process keeps it"
        if end == "release":
            inbox.put("drop")
        else:
            os.kill(process.pid, signal.SIGKILL)
        device.wait_until(owner_released, end)
        process.kill()
        process.join(workers.TIMEOUT)


def take_and_drop(inbox: Any, outbox: Any) -> None:
    tensor = inbox.get()
    outbox.put(tensor.tolist())
    inbox.get()
    del tensor
    inbox.get()


@case
def test_owner_is_released_even_if_block_is_reused_immediately() -> None:
    """Regression: if the next array reused the block before its release was noticed, the owner leaked."""
    for _ in range(30):
        tensors = [st.asarray(array) for array in [Array([1.0]) for _ in range(20)]]
        while tensors:  # each array is released immediately before the next one
            tensors.pop()
            st.asarray(Array([1.0]))
    gc.collect()
    device.wait_until(owner_released, "all owners")


@case
def test_user_array_is_forwarded_to_third_process_and_back() -> None:
    array = Array([1.0, 2.0])
    tensor = st.asarray(array)
    first, second = Pair(workers.relay), Pair(workers.relay)
    first.put(tensor)
    # From one child to the other; this process forwards it without using it.
    assert first.outbox._reader.poll(workers.TIMEOUT)
    passed = first.get()
    del tensor
    second.put(passed)
    back = second.get()
    assert back.data_ptr() == array.pointer
    first.end()
    second.end()
    del passed, back, array
    device.wait_until(owner_released, "the owner")


def forward(inbox: Any, onward: Any, done: Any) -> None:
    tensor = inbox.get()
    onward.put(tensor)
    del tensor
    done.put(True)
    inbox.get()


@case
def test_consumer_forwards_array_after_sender_released_it() -> None:
    inbox, onward, done, answers = (workers.SPAWN.SimpleQueue() for _ in range(4))
    middle = workers.SPAWN.Process(target=forward, args=(inbox, onward, done), daemon=True)
    middle.start()
    inbox.put(st.asarray(Array([7.0])))
    assert workers.take(done, workers.TIMEOUT)
    assert Array.alive == 1, "the forwarded message keeps it"
    last = workers.SPAWN.Process(target=workers.answer, args=(onward, answers), daemon=True)
    last.start()
    assert workers.take(answers, workers.TIMEOUT) == [([7.0], "cuda:0", False)]
    onward.put(None)
    device.wait_until(owner_released, "the owner")
    inbox.put(None)
    for process in (middle, last):
        process.join(workers.TIMEOUT)


@case
def test_queue_keeps_array_after_last_local_reference() -> None:
    queue = workers.SPAWN.SimpleQueue()
    array = Array([1.0, 2.0])
    tensor = st.asarray(array)
    queue.put(tensor)
    assert queue.get().storage() is tensor.storage()
    queue.put(tensor)
    del tensor
    gc.collect()
    back = queue.get()
    assert back.data_ptr() == array.pointer, "own memory is not mapped a second time"
    del back, array
    device.wait_until(owner_released, "the owner")


@simulated_case("needs a driver that counts its calls")
def test_allocation_is_exported_once() -> None:
    array = Array(np.arange(100.0))
    tensors = [st.asarray(array) for _ in range(5)]
    assert device.calls("cuIpcGetMemHandle") == 1
    for tensor in tensors:
        ForkingPickler.dumps(tensor)
    assert device.calls("cuIpcGetMemHandle") == 1


def count_opens(inbox: Any, outbox: Any) -> None:
    first = inbox.get()
    second = inbox.get()
    outbox.put((device.calls("cuIpcOpenMemHandle_v2"), second.data_ptr() - first.data_ptr()))
    del first, second
    gc.collect()
    outbox.put(device.calls("cuIpcCloseMemHandle"))
    again = inbox.get()
    outbox.put((device.calls("cuIpcOpenMemHandle_v2"), again.tolist()))
    del again


@simulated_case("needs a driver that counts its calls")
def test_allocation_is_opened_once_and_closed_after_last_use() -> None:
    array = Array(np.arange(100.0))
    tensor = st.asarray(array)
    pair = Pair(count_opens)
    pair.put(tensor)
    pair.put(st.asarray(array)[2:])
    assert pair.get() == (1, 16)
    assert pair.get() == 1
    pair.put(tensor[:2])
    assert pair.get() == (2, [0, 1])
    pair.process.join(workers.TIMEOUT)


def produce_in_place(outbox: Any, all_sent: Any) -> None:
    kept = Array([1.0, 2.0])
    outbox.put(st.asarray(kept))
    outbox.put(st.asarray(kept)[1:])
    outbox.put(st.asarray(Array([3.0])))
    all_sent.set()
    time.sleep(workers.TIMEOUT)


def test_producer_that_is_killed_as_its_memory_is_opened_is_reported(simulator) -> None:
    """The driver's error 400 means only an invalid handle, and comes before the process has ended."""
    simulator.run(
        """
        import pytest, shmtensor as st
        from tests.cuda import workers
        from tests.cuda.test_user_memory import produce_in_place
        if __name__ == "__main__":
            outbox, all_sent = workers.SPAWN.SimpleQueue(), workers.SPAWN.Event()
            process = workers.SPAWN.Process(target=produce_in_place, args=(outbox, all_sent), daemon=True)
            process.start()
            assert all_sent.wait(workers.TIMEOUT)
            with pytest.raises(st.ProducerGone, match=f"process {process.pid}.* has exited"):
                outbox.get()
            process.join(workers.TIMEOUT)
            assert process.exitcode == -9
        """,
        SHMTENSOR_SIM_KILL_OWNER="1",
    )


@case
def test_producer_that_exits_first_is_reported() -> None:
    """Memory that is open stays usable; opening other memory raises an error that names the producer."""
    outbox, all_sent = workers.SPAWN.SimpleQueue(), workers.SPAWN.Event()
    process = workers.SPAWN.Process(target=produce_in_place, args=(outbox, all_sent), daemon=True)
    process.start()
    assert all_sent.wait(workers.TIMEOUT)
    tensor = outbox.get()
    assert tensor.tolist() == [1, 2]
    os.kill(process.pid, signal.SIGKILL)
    process.join(workers.TIMEOUT)
    assert tensor.tolist() == [1, 2], "its pages remain mapped"
    tensor.fill_(5)
    other = outbox.get()
    assert other.tolist() == [5], "the same allocation is open here"
    with pytest.raises(st.ProducerGone, match=f"process {process.pid}.* has exited") as caught:
        outbox.get()
    assert "copy=True" in str(caught.value)
    del tensor, other
    gc.collect()
    if device.simulated:
        device.wait_until(lambda: device.used_bytes() == 0, "the dead producer's memory")
    known = st.stats()["queues"] + 1  # and the event
    device.wait_until(lambda: st.stats()["blocks"] == known, "its blocks")


@case
def test_unexportable_array_is_copied_or_rejected_with_reason() -> None:
    tensor = st.asarray(Array([1.0, 2.0]), copy=True)
    assert tensor.tolist() == [1, 2]
    device.wait_until(owner_released, "a copy needs no owner")
    array = Array([1.0, 2.0])
    assert st.asarray(array, "f4").dtype == np.float32
    with pytest.raises(ValueError, match=r"without a copy: .*dtype float64"):
        st.asarray(array, "f4", copy=False)
    assert st.asarray(array, device="cpu").device == "cpu"
    if device.simulated:
        for kind, reason in (("managed", "managed memory"), ("pool", "stream-ordered pool")):
            array = Array([4.0, 5.0], kind=kind)
            tensor = st.asarray(array)
            assert tensor.data_ptr() != array.pointer
            assert tensor.tolist() == [4, 5]
            with pytest.raises(ValueError, match=f"cannot be shared without a copy: .*{reason}"):
                st.asarray(array, copy=False)


@case
def test_strided_views_and_own_arrays_are_shared() -> None:
    array = Array(np.arange(12.0).reshape(3, 4))

    class View:
        __cuda_array_interface__ = array.__cuda_array_interface__ | {
            "shape": (4, 2),
            "strides": (8, 64),
            "data": (array.pointer, True),
            "owner": array,
        }

    tensor = st.asarray(View())
    assert tensor.tolist() == np.arange(12.0).reshape(3, 4).T[:, ::2].tolist()
    assert tensor.readonly
    back = pickle.loads(ForkingPickler.dumps(tensor))
    assert back.readonly
    assert back.strides == (8, 64)


@case
def test_owners_work_completes_before_message_is_read() -> None:
    import threading

    array = Array([1.0], stream=None)
    tensor = st.asarray(array)
    pair = Pair(workers.answer)
    latch = device.Latch().close()
    value = (ctypes.c_double * 1)(9.0)
    device.check(
        device.library().cuMemcpyHtoDAsync_v2(
            ctypes.c_uint64(array.pointer), value, ctypes.c_size_t(8), ctypes.c_void_p(1)
        )
    )
    threading.Timer(0.3, latch.open).start()
    pair.put(tensor)
    assert latch.is_open(), "the send waits for the stream"
    assert pair.get() == [([9.0], "cuda:0", False)]
    pair.end()


def use_and_release(inbox: Any, outbox: Any) -> None:
    """Release what is received while a kernel of this process still writes it; the test ends the kernel."""
    kept = [inbox.get()]
    pointer, size = ctypes.c_uint64(kept[0].data_ptr()), ctypes.c_size_t(kept[0].nbytes)
    latch = device.Latch().close()
    device.check(device.library().cuMemsetD8Async(pointer, 9, size, None))
    outbox.put("started")
    kept.clear()
    outbox.put(latch.is_open())
    inbox.get()


@case
def test_owner_gets_its_memory_after_the_readers_work() -> None:
    array = Array(np.zeros(4, "u1"))
    pair = Pair(use_and_release)
    pair.put(st.asarray(array, copy=False))
    assert pair.get() == "started"
    time.sleep(0.2)
    assert not pair.outbox._reader.poll()
    assert array.read().tolist() == [0] * 4
    device.Latch().open()
    assert pair.get() is True
    assert array.read().tolist() == [9] * 4
    pair.end()


@case
def test_one_thread_runs_only_while_arrays_are_exported() -> None:
    import threading

    st.zeros(3, device="cuda")
    assert not [thread for thread in threading.enumerate() if "shmtensor" in thread.name]
    arrays = [Array([1.0]) for _ in range(3)]
    tensors = [st.asarray(array) for array in arrays]
    assert [thread.name for thread in threading.enumerate() if "shmtensor" in thread.name] == [
        "shmtensor-release"
    ]
    del tensors
    st.cuda.ipc_collect()
    del arrays
    device.wait_until(owner_released, "the owners")
