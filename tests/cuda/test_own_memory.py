"""Memory that shmtensor allocates on a GPU, between processes."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import threading
import weakref
from functools import partial
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmtensor as st
from shmtensor._core import storage_at
from tests.cuda import device, workers
from tests.cuda.harness import case, simulated_case
from tests.cuda.workers import Pair


def stats() -> tuple[int, int]:
    gc.collect()
    seen = st.stats()
    return seen["blocks"] - seen["queues"], seen["in_flight"]


def nothing_is_left() -> bool:
    st.cuda.ipc_collect()
    return stats() == (0, 0)


@case
def test_memory_is_found_by_its_address_on_the_device() -> None:
    tensor = st.ones(1000, device="cuda")
    assert storage_at(tensor.data_ptr(), 8000) is tensor.storage()
    assert storage_at(tensor[10:].data_ptr(), 8000) is None
    begin = tensor.data_ptr()
    del tensor
    assert nothing_is_left()
    assert storage_at(begin, 1) is None


@case
def test_round_trip_returns_the_same_memory() -> None:
    tensor = st.asarray(np.arange(6.0).reshape(2, 3), device="cuda")
    pair = Pair(workers.echo)
    pair.put(tensor)
    back = pair.get()
    assert back.storage() is tensor.storage(), "the same tensor is returned"
    assert tensor.tolist() == (np.arange(6.0).reshape(2, 3) + 1).tolist()
    view = tensor[1:, ::2]
    pair.put(view)
    back = pair.get()
    assert (back.shape, back.strides, back.storage_offset()) == (view.shape, view.strides, 24)
    assert tensor.tolist() == [[1, 2, 3], [5, 5, 7]]
    pair.end()
    del tensor, view, back
    device.wait_until(nothing_is_left, "blocks and messages")


@case
def test_views_in_one_message_share_one_storage() -> None:
    pair = Pair(workers.answer)
    for number in range(30):
        tensor = st.full((50_000,), number, "i4", device="cuda")
        pair.put([tensor[:3], tensor[-2:].as_readonly(), st.zeros(2, device="cuda")])
        assert pair.get() == [
            ([number] * 3, "cuda:0", False),
            ([number] * 2, "cuda:0", True),
            ([0, 0], "cuda:0", False),
        ]
    pair.end()
    del tensor
    device.wait_until(nothing_is_left, "blocks and messages")


@case
def test_readonly_tensor_is_mapped_readonly() -> None:
    tensor = st.asarray([1, 2, 3], device="cuda")
    pair = Pair(workers.answer)
    pair.put(tensor.as_readonly())
    assert pair.get() == [([1, 2, 3], "cuda:0", True)]
    pair.end()
    data = ForkingPickler.dumps(tensor.as_readonly())
    del tensor
    received = pickle.loads(data)
    assert received.readonly
    assert received.storage().readonly
    assert received.__cuda_array_interface__["data"][1] is True
    address, size = device.ctypes.c_uint64(received.data_ptr()), device.ctypes.c_size_t(1)
    assert device.library().cuMemcpyHtoDAsync_v2(address, b"\0", size, None) == 1, (
        "not a kernel, which would fault"
    )
    assert received.tolist() == [1, 2, 3]


@simulated_case("needs a driver that counts its calls")
def test_chunk_is_imported_once_and_warm_sends_skip_driver() -> None:
    first, second = st.zeros(1000, device="cuda"), st.ones(1000, device="cuda")
    messages = [ForkingPickler.dumps(tensor) for tensor in (first, second) for _ in range(50)]
    before = device.all_calls()
    for message in messages:
        pickle.loads(message)
    for _ in range(100):
        pickle.loads(ForkingPickler.dumps(first[5:]))
        fresh = st.empty(1000, device="cuda")
        pickle.loads(ForkingPickler.dumps(fresh))
        del fresh
    assert device.all_calls() == before, "sends, receives, allocations and releases"


def count_imports(inbox, outbox) -> None:
    device.library()
    kept = []
    while (item := inbox.get()) is not None:
        kept.append(item)
        before = device.all_calls()
        outbox.put(len(kept))
        outbox.put((device.calls("cuMemImportFromShareableHandle"), device.calls("cuMemMap"), before))


@simulated_case("needs a driver that counts its calls")
def test_consumer_maps_each_chunk_once() -> None:
    pair = Pair(count_imports)
    seen = set()
    for number in range(20):
        pair.put(st.full((100,), number, device="cuda"))
        pair.get()
        imports, maps, calls = pair.get()
        assert (imports, maps) == (1, 1)
        seen.add(calls)
    assert len(seen) == 1, "the first import was the last call of the driver"
    pair.end()


@pytest.mark.thorough
@case
def test_consumer_may_outlive_producer() -> None:
    """The message is received before the producer's end, after it, and after it was killed."""
    for received_first in (True, False):
        pair = Pair(workers.produce)
        pair.inbox, pair.outbox = pair.outbox, pair.inbox
        if received_first:
            tensor = pair.get()
            pair.kill()
        else:
            assert pair.outbox._reader.poll(workers.TIMEOUT)
            pair.kill()
            tensor = pair.get()
        assert tensor.tolist() == [1.5, 2.5]
        tensor.fill_(3)
        other = Pair(workers.answer)
        other.put(tensor)
        assert other.get() == [([3, 3], "cuda:0", False)], "it can be forwarded"
        other.end()
        del tensor
    device.wait_until(nothing_is_left, "blocks and messages")
    if device.simulated:
        device.wait_until(lambda: device.used_bytes() == 0, "the dead producers' memory")


@pytest.mark.thorough
@case
def test_blocks_of_killed_consumer_are_freed() -> None:
    """It is killed while it holds a block, and while a message is unread, which stays valid."""
    tensor = st.asarray([1, 2], device="cuda")
    kept = weakref.ref(tensor.storage())
    pair = Pair(workers.die)
    pair.put(tensor)
    assert pair.get() == [1, 2]
    blocks = stats()[0]
    del tensor
    gc.collect()
    assert kept() is None
    assert stats()[0] == blocks, "the other process holds it"
    pair.kill()
    device.wait_until(lambda: stats() == (0, 0), "the block of a killed holder")

    tensor = st.asarray([3, 4], device="cuda")
    inbox = workers.SPAWN.SimpleQueue()
    inbox.put(tensor)
    del tensor
    pair = Pair(workers.die)
    pair.kill()
    assert inbox.get().tolist() == [3, 4]
    device.wait_until(lambda: stats() == (0, 0), "the message's block")


@case
def test_tensor_passes_through_three_processes() -> None:
    first, second = Pair(workers.relay), Pair(workers.echo)
    tensor = st.zeros(3, device="cuda")
    first.put(tensor)
    passed = first.get()
    second.put(passed)
    back = second.get()
    assert back.storage() is tensor.storage()
    assert tensor.tolist() == [1, 1, 1]
    first.end()
    second.end()


@case
def test_two_consumers_hold_one_block() -> None:
    tensor = st.zeros(3, device="cuda")
    pairs = [Pair(workers.hold), Pair(workers.hold)]
    for pair in pairs:
        pair.put(tensor)
        assert pair.get() == 1
    tensor.fill_(8)
    del tensor
    assert stats()[0] == 1
    for pair in pairs:
        pair.put(None)
        assert pair.get() == [[8, 8, 8]]
        pair.process.join(workers.TIMEOUT)
    device.wait_until(lambda: stats() == (0, 0), "the block")


@case
def test_queue_within_one_process_keeps_storage() -> None:
    queue = workers.SPAWN.SimpleQueue()
    tensor = st.asarray([1, 2, 3], device="cuda")
    queue.put(tensor)
    assert queue.get().storage() is tensor.storage()
    queue.put(tensor)
    del tensor
    gc.collect()
    assert queue.get().tolist() == [1, 2, 3], "after the last local reference"


@case
def test_simultaneous_imports_share_one_storage() -> None:
    pair = Pair(workers.produce)
    pair.inbox, pair.outbox = pair.outbox, pair.inbox
    message = pair.outbox._reader
    assert message.poll(workers.TIMEOUT)
    tensor = pair.get()
    handle = ForkingPickler.dumps(tensor)
    found, ready = [], threading.Barrier(4)

    def load() -> None:
        ready.wait(30)
        found.append(pickle.loads(handle))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4
    assert {id(one.storage()) for one in found} == {id(tensor.storage())}
    pair.inbox.put(None)
    pair.process.join(workers.TIMEOUT)


def receive_without_descriptors(inbox, outbox) -> None:
    st.zeros(1, device="cuda")  # starts the session and the driver, whose failed start would be final
    assert inbox._reader.poll(workers.TIMEOUT)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, hard))
    spare = []
    try:
        while True:
            spare.append(os.dup(0))
    except OSError:
        pass
    try:
        inbox.get()
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    outbox.put(answer)
    outbox.put(inbox.get().tolist())


@case
def test_import_without_descriptors_raises_and_can_be_retried() -> None:
    pair = Pair(receive_without_descriptors)
    tensor = st.asarray([5], device="cuda")
    pair.put(tensor)
    text = pair.get()
    assert text.startswith(("OSError", "SessionError", "CudaError")), text
    pair.put(tensor)
    assert pair.get() == [5]
    pair.process.join(workers.TIMEOUT)


@case
def test_corrupted_handles_are_rejected() -> None:
    tensor = st.zeros(3, device="cuda")
    from shmtensor import _core

    function, (handle,) = _core.reduce_tensor(tensor)
    for damaged in (handle[:20], handle[:-1], handle + b"x", handle[:5] + b"\xff" + handle[6:], b""):
        with pytest.raises(st.StaleHandleError):
            function(damaged)
    assert function(handle).storage() is tensor.storage()


@case
def test_forked_child_gets_error_and_leaks_nothing() -> None:
    tensor = st.asarray([1, 2], device="cuda")
    host = st.asarray([3])
    blocks = stats()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        texts = []
        for use in (
            tensor.tolist,
            tensor.cpu,
            lambda: st.zeros(1, device="cuda"),
            partial(ForkingPickler.dumps, tensor),
            st.cuda.synchronize,
            partial(tensor.fill_, 1),
        ):
            try:
                use()
                texts.append("worked")
            except st.CudaUnavailable as error:
                texts.append("named" if "spawn" in str(error) else str(error))
        texts.append(str(st.cuda.is_available()))
        texts.append(str(host.tolist()))
        os.write(write, ",".join(texts).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    assert os.read(read, 1000).decode() == "named,named,named,named,named,named,False,[3]"
    os.close(read)
    assert tensor.tolist() == [1, 2]
    device.wait_until(lambda: stats() == blocks, "the child's holds")

    pid = os.fork()
    if pid == 0:
        signal.pause()
    try:
        del tensor

        def is_free() -> bool:
            st.cuda.ipc_collect()  # again: a child releases what it inherited when it begins
            return nothing_but(1)() and not (device.simulated and device.used_bytes())

        device.wait_until(is_free, "a child that lives keeps no device memory")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def nothing_but(blocks: int):
    return lambda: stats() == (blocks, 0)


@case
def test_descriptors_do_not_leak() -> None:
    def count() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    pair = Pair(workers.echo)
    pair.put(st.zeros(3, device="cuda"))
    pair.get()
    before = count()
    for _ in range(20):
        pair.put(st.zeros(3, device="cuda"))
        pair.get()
        with pytest.raises(Exception):  # noqa: B017, PT011  # whatever pickle raises for a lambda
            pair.put([st.zeros(3, device="cuda"), lambda: 0])
    assert count() == before
    pair.end()
    device.wait_until(lambda: stats() == (0, 0), "what a failed put had allocated")
