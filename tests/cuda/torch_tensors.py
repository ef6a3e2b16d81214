"""Programs with torch's tensors on a GPU. They run no kernels, so the simulated driver can run them, too."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import struct
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._core import storage_at
from tests.cuda import device, workers
from tests.cuda.test_graph_captures import capture

BIG = 50_000


def on_gpu(values: torch.Tensor, where: str = "cuda") -> torch.Tensor:
    return torch.empty_like(values, device=where).copy_(values)


def private(where: str = "cuda") -> torch.Tensor:
    return on_gpu(torch.arange(float(BIG)), where)


def shared() -> tuple[st.Tensor, torch.Tensor]:
    tensor = st.zeros(BIG, "f4", device="cuda")
    return tensor, torch.from_dlpack(tensor)


def is_shared(tensor: torch.Tensor) -> bool:
    return storage_at(tensor.data_ptr(), tensor.nbytes) is not None


def blocks() -> int:
    gc.collect()
    return st.stats()["blocks"]


def through_pickle(obj: Any) -> Any:
    return pickle.loads(ForkingPickler.dumps(obj))


def add_one(inbox: Any, outbox: Any) -> None:
    """Change each received tensor, and send it back."""
    while (tensor := inbox.get()) is not None:
        tensor.copy_(tensor.cpu() + 1)
        outbox.put(tensor)


def write(inbox: Any, outbox: Any) -> None:
    """Write into each received tensor, and send back what it was."""
    while (tensor := inbox.get()) is not None:
        before = tensor.cpu()
        tensor.copy_(torch.full(tensor.shape, 7.0))
        torch.cuda.synchronize()
        del tensor
        outbox.put(before)


def memory_of_ours() -> None:
    """Without an option, memory of shmtensor travels as handles, and torch sends its own."""
    st.install("torch")
    tensor, over = shared()
    pair = workers.Pair(add_one)
    pair.put(over)
    back = pair.get()
    assert back.data_ptr() == over.data_ptr()
    assert tensor[:2].tolist() == [1, 1]
    pair.put(over[10:20])
    assert pair.get().data_ptr() == over.data_ptr() + 40
    assert tensor[9:12].tolist() == [1, 2, 2]
    pair.end()
    pair = workers.Pair(write)
    mine = private()
    pair.put(mine)
    assert pair.get()[:3].tolist() == [0, 1, 2]
    assert mine[:3].tolist() == [7, 7, 7], "torch shares its memory where it is"
    pair.end()
    del mine, back, over, tensor, pair
    assert blocks() == 0


def copies() -> None:
    """With `cuda=True` a private tensor is copied once; the sender's does not change."""
    st.install("torch", cuda=True)
    pair = workers.Pair(add_one)
    mine = private()
    pair.put(mine)
    back = pair.get()
    assert is_shared(back)
    assert back[:3].tolist() == [1, 2, 3]
    assert mine[:3].tolist() == [0, 1, 2]
    pair.put(back[5:8])
    part = pair.get()
    assert part.data_ptr() == back.data_ptr() + 20, "it is in shared memory now"
    assert back[4:9].tolist() == [5, 7, 8, 9, 9]
    pair.put(mine[100:110])
    part = pair.get()
    assert part.tolist() == list(range(101, 111))
    assert part.untyped_storage().nbytes() == 40, "a small part of a large storage"
    for empty in (torch.empty((0, 3), device="cuda"), mine[5:5]):
        pair.put(empty)
        part = pair.get()
        assert part.shape == empty.shape
        assert part.is_cuda
    pair.end()
    del back, part, pair
    assert blocks() == 0


def copies_after_events() -> None:
    st.cuda.set_sync("event")
    copies()


def copies_from_streams() -> None:
    """A copy is made after the work of the stream that the sender uses."""
    st.install("torch", cuda=True)
    host = torch.arange(float(BIG)).pin_memory()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for value in range(5):
            mine = torch.empty(BIG, device="cuda")
            mine.copy_(host + value, non_blocking=True)
            back = through_pickle(mine)
            del mine  # its memory is used again
            assert back[:3].tolist() == [value, value + 1, value + 2]


def answer_in_a_stream(inbox: Any, outbox: Any) -> None:
    """Read each received tensor in another stream than the default one; keep some."""
    kept = []
    with torch.cuda.stream(torch.cuda.Stream()):
        while (message := inbox.get()) is not None:
            tensor, keep = message
            outbox.put(tensor.cpu().tolist())
            kept += [tensor] if keep else []
            del message, tensor


def received_in_a_stream() -> None:
    """The stream that the receiver uses waits for the sender's work, at every receive."""
    st.install("torch", cuda=True)
    st.cuda.set_sync("event")
    _, tensor = shared()
    pointer, size = device.ctypes.c_uint64(tensor.data_ptr()), device.ctypes.c_size_t(tensor.nbytes)
    pair = workers.Pair(answer_in_a_stream)
    pair.put((tensor, False))
    assert pair.get()[0] == 0
    for value in (0x40, 0x41, 0x42):
        latch = device.Latch(f"latch{value}").close()
        device.check(device.library().cuMemsetD8Async(pointer, value, size, None))
        pair.put((tensor, True))
        assert not pair.outbox._reader.poll(0.3), "the receiver has read too early"
        latch.open()
        assert pair.get()[-1] == struct.unpack("f", bytes([value] * 4))[0]
    pair.end()


def received_during_a_capture() -> None:
    """Regression: the receive of a known tensor was refused, and its message lost."""
    st.install("torch", cuda=True)
    st.cuda.set_sync("event")
    _, tensor = shared()
    pair = workers.Pair(workers.relay)
    pair.put(tensor)
    known = pair.get()
    pair.put(tensor)
    captured = torch.cuda.Stream()
    with torch.cuda.stream(captured):
        with capture(captured.cuda_stream):
            received = pair.get()
        assert received.data_ptr() == known.data_ptr() == tensor.data_ptr()
    pair.end()


def in_place() -> None:
    """With `alias=True`, too, torch's memory is shared where it is, until no process uses it."""
    st.install("torch", cuda=True, alias=True)
    pair = workers.Pair(add_one)
    unused = torch.cuda.memory_allocated()
    mine = private()
    pair.put(mine)
    back = pair.get()
    assert back.data_ptr() == mine.data_ptr()
    assert mine[:3].tolist() == [1, 2, 3]
    pair.put(mine[10:20])
    assert pair.get().data_ptr() == mine.data_ptr() + 40
    assert mine[9:12].tolist() == [10, 12, 13]
    onward = workers.SPAWN.SimpleQueue()
    middle = workers.SPAWN.Process(target=add_one, args=(onward, pair.inbox), daemon=True)
    middle.start()
    onward.put(mine)
    assert pair.get().data_ptr() == mine.data_ptr(), "a received tensor is sent on"
    assert mine[:3].tolist() == [3, 4, 5]
    onward.put(None)
    middle.join(workers.TIMEOUT)
    pair.kill()
    del mine, back, pair, onward
    device.wait_until(lambda: blocks() == 0, "the memory of the killed process")
    device.wait_until(lambda: torch.cuda.memory_allocated() == unused, "torch to have its memory")


def make(outbox: Any) -> None:
    outbox.put(private())


def ended_producer() -> None:
    st.install("torch", cuda=True)
    outbox = workers.SPAWN.SimpleQueue()
    process = workers.SPAWN.Process(target=make, args=(outbox,))
    process.start()
    process.join(workers.TIMEOUT)
    assert process.exitcode == 0
    assert outbox.get()[:3].tolist() == [0, 1, 2]


def killed_consumer() -> None:
    st.install("torch", cuda=True)
    pair = workers.Pair(add_one)
    pair.put(private())
    pair.get()
    pair.put(private())
    device.wait_until(pair.outbox._reader.poll, "the second tensor")
    pair.kill()
    assert pair.get()[:2].tolist() == [1, 2], "the message outlives its sender"
    pair.put(private())  # no process reads it
    del pair
    device.wait_until(lambda: blocks() == 0, "the tensors of the killed process")


def views_and_parameters() -> None:
    """Views of one storage in a message share it in the receiver."""
    st.install("torch", cuda=True)
    for mine in (private(), shared()[1]):
        weight = torch.nn.Parameter(mine)
        first, view, matrix = through_pickle((weight, mine[3:40_000], mine.reshape(-1, 100).T))
        assert type(first) is torch.nn.Parameter
        assert first.requires_grad
        assert not view.requires_grad
        assert view.data_ptr() == first.data_ptr() + 12
        assert matrix.untyped_storage() is first.untyped_storage()
        assert matrix.stride() == (1, 100)
    model = torch.nn.Sequential(torch.nn.Linear(30, 30), torch.nn.Linear(30, 30))
    model = model.to("meta").to_empty(device="cuda")
    model[1].weight = model[0].weight
    for parameter in model.parameters():
        parameter.data.copy_(torch.ones(parameter.shape))
    back = through_pickle(model)
    assert back[1].weight is back[0].weight
    assert torch.equal(back[0].bias.cpu(), torch.ones(30))
    state = through_pickle(model.state_dict())
    assert state["0.weight"].data_ptr() == state["1.weight"].data_ptr()
    storage = through_pickle(private().untyped_storage())
    assert storage.is_cuda
    assert storage.nbytes() == 4 * BIG


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides, for which no kernel runs."""
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8, device="cuda").set_(storage).cpu().untyped_storage()
    empty = torch.empty(0, dtype=tensor.dtype)
    return empty.set_(whole, tensor.storage_offset(), tensor.shape, tensor.stride())


def bytes_of(tensor: torch.Tensor) -> list[int]:
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def layouts_and_dtypes() -> None:
    st.install("torch", cuda=True)
    for dtype in (torch.bfloat16, torch.complex64, torch.bool, torch.float8_e4m3fn, torch.int64):
        values = torch.arange(24).reshape(4, 6).to(dtype)
        for part in (lambda t: t, lambda t: t.T, lambda t: t[1:, ::2], lambda t: t[2, 3]):
            back = through_pickle(part(on_gpu(values)))
            assert back.dtype == dtype
            assert back.stride() == part(values).stride()
            assert bytes_of(on_host(back)) == bytes_of(part(values))


def halve(tensor: torch.Tensor) -> torch.Tensor:
    tensor.copy_(tensor.cpu() / 2)
    return tensor


def put_sum(tensor: torch.Tensor, outbox: Any) -> None:
    outbox.put(float(tensor.cpu().sum()))


def elsewhere() -> None:
    """Pools, pipes, arguments; torch's, the standard library's and our own."""
    st.install("torch", cuda=True)
    mine = private()
    for module in (torch.multiprocessing, multiprocessing, mp):
        context = module.get_context("spawn")
        half, total, first, second = workers.send_around(context, mine, halve, put_sum)
        assert is_shared(half)
        assert half[:3].tolist() == [0, 0.5, 1]
        assert total == mine.cpu().sum()
        assert first.data_ptr() != mine.data_ptr()
        assert second.data_ptr() == half.data_ptr()


def by_name() -> None:
    st.install("torch", cuda=True)
    st.publish("weights", {"a": shared()[1], "b": private()})
    one, other = st.attach("weights"), st.attach("weights")
    for name in ("a", "b"):
        assert one[name].data_ptr() == other[name].data_ptr()
    assert one["b"][:3].tolist() == [0, 1, 2]
    st.unpublish("weights")


def options() -> None:
    """torch's own way comes back with `uninstall`; files never have a handle."""
    own = ForkingPickler._extra_reducers.get(torch.Tensor)
    st.install("torch", cuda=True)
    mine = private()
    assert is_shared(through_pickle(mine))
    assert not is_shared(pickle.loads(pickle.dumps(mine)))
    assert not is_shared(st.SharedList([shared()[1]])[0])
    st.install("torch")
    assert ForkingPickler.loads is pickle.loads
    rebuild, _ = ForkingPickler._extra_reducers[torch.Tensor](mine)
    assert rebuild.__module__ == "torch.multiprocessing.reductions"
    st.uninstall("torch")
    assert ForkingPickler._extra_reducers.get(torch.Tensor) is own
