"""Programs with pinned batches of torch's `DataLoader`, without kernels: the simulator runs them, too."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import pin_memory as loaders

import shmtensor as st
import shmtensor._core as _core
from tests.cuda import device
from tests.cuda.test_graph_captures import capture
from tests.cuda.torch_tensors import blocks

SIZE = 3 << 20  # a batch has two, and crosses a boundary of extents
BATCHES = 8


class Samples(Dataset):
    """Big samples, small labels, and the worker's pid."""

    def __len__(self) -> int:
        return 2 * BATCHES

    def __getitem__(self, index: int) -> Any:
        return torch.full((SIZE,), index, dtype=torch.uint8), index, os.getpid()


def install() -> None:
    """Install the integration in a program that uses the GPU already."""
    torch.zeros(1).to("cuda")
    st.install("torch")


def loader(**options: Any) -> Any:
    install()
    return DataLoader(Samples(), batch_size=2, num_workers=2, pin_memory=True, **options)


def pinned(tensor: torch.Tensor) -> torch.Tensor:
    """Pin a tensor in shared memory, as the data loader does."""
    result = loaders.pin_memory(tensor)
    assert result.is_pinned()
    return result


def shared(value: int = 1, size: int = SIZE) -> torch.Tensor:
    return torch.from_dlpack(st.full(size, value, "u1"))


def to_gpu(batch: torch.Tensor) -> torch.Tensor:
    return torch.empty(batch.shape, dtype=batch.dtype, device="cuda").copy_(batch, non_blocking=True)


def batches_arrive_pinned() -> None:
    """Each batch is the worker's memory, which the driver has pinned; small tensors, too."""
    for number, (images, labels, _) in enumerate(loader()):
        assert images.is_pinned()
        assert labels.is_pinned()
        copied = to_gpu(images)
        torch.cuda.synchronize()
        assert copied.cpu()[:, -1].tolist() == [2 * number, 2 * number + 1] == labels.tolist()
    assert number == BATCHES - 1
    if device.simulated:
        device.library()
        assert device.calls("cuMemHostAlloc") == 0
        assert 1 <= device.calls("cuMemHostRegister_v2") <= BATCHES
    assert blocks() >= 2, "a copy would be in private memory"
    del images, labels, _
    st.gc()
    assert blocks() == 0


def batch_is_kept_until_it_is_copied() -> None:
    """Its memory is not used again while a stream that torch made may be reading it."""
    iterator = iter(loader(prefetch_factor=1))
    images = next(iterator)[0]
    first, expected = images.data_ptr(), images[:, 0].tolist()
    stream = torch.cuda.Stream()
    latch = device.Latch().close()
    stream.wait_stream(torch.cuda.default_stream())
    with torch.cuda.stream(stream):
        copied = to_gpu(images)
    del images
    for batch in iterator:
        assert batch[0].data_ptr() != first
        del batch
    latch.open()
    torch.cuda.synchronize()
    assert copied.cpu()[:, -1].tolist() == expected
    del iterator  # with its queues
    st.gc()
    device.wait_until(lambda: blocks() == 0, "the end of batches and queues")


def release_during_a_capture() -> None:
    """A release while its thread captures a graph leaves the capture valid, and happens later."""
    install()
    tensor = pinned(shared())
    before = blocks()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), capture(stream.cuda_stream):
        del tensor
    assert blocks() == before
    st.gc()
    assert blocks() == before - 1


def pinned_again_after_pages_were_discarded() -> None:
    """The driver would go on using the old pages."""
    install()
    address = 0
    for value in (1, 2, 3):
        tensor = shared(value)
        assert tensor.data_ptr() == (address or tensor.data_ptr())
        address = tensor.data_ptr()
        tensor = pinned(tensor)
        copied = to_gpu(tensor)
        torch.cuda.synchronize()
        assert copied.cpu().unique().tolist() == [value]
        del tensor
        st.gc()  # returns the memory to the system
        assert st.stats()["bytes_reserved"] < SIZE
    if device.simulated:
        device.library()
        assert device.calls("cuMemHostRegister_v2") == device.calls("cuMemHostUnregister") + 1 == 3


def tensors_of_many_sizes() -> None:
    """After some calls of the driver, all that an arena uses is pinned."""
    install()
    held: list[torch.Tensor] = []
    for number in range(300):
        tensor = pinned(shared(number % 256, (100 + number * 37 % 200) * 70_000))
        copied = to_gpu(tensor)
        torch.cuda.synchronize()
        assert copied.cpu()[[0, -1]].tolist() == [number % 256] * 2
        held.append(tensor)
        if len(held) == 8:
            del held[number % 3]
    assert all(tensor.is_pinned() for tensor in held)
    if device.simulated:
        device.library()
        assert device.calls("cuMemHostRegister_v2") < 60


def killed_worker() -> None:
    """Pinned batches of a killed worker are valid until they are released."""
    iterator = iter(loader(prefetch_factor=1))
    images, _, pids = next(iterator)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler would raise here
    os.kill(int(pids[0]), signal.SIGKILL)
    device.wait_until(lambda: st.stats()["processes"] == 2, "the worker's end")
    copied = to_gpu(images)
    torch.cuda.synchronize()
    assert copied.cpu()[:, -1].tolist() == [0, 1]
    with contextlib.suppress(RuntimeError):  # "exited unexpectedly"
        list(iterator)
    del iterator, images, _, pids
    st.gc()
    assert blocks() == 0


def forked_child() -> None:
    """A child has the pinned tensors as shared memory, and calls no driver for them."""
    install()
    tensor = pinned(shared())
    child = os.fork()
    if child == 0:
        tensor += 1
        del tensor
        st.gc()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert tensor.is_pinned()
    assert to_gpu(tensor).cpu()[0].item() == 2


def elsewhere() -> None:
    """Outside of a data loader, `pin_memory` copies; private and read-only tensors are copied everywhere."""
    install()
    tensor = shared()
    pinned(tensor)[7] = 5
    assert tensor[7] == 5
    for copied in tensor.pin_memory(), pinned(tensor.clone()):
        copied[7] = 6
        assert copied.is_pinned()
    batch = loaders.pin_memory({"a": tensor, "b": [tensor[5:10], "text"]})
    batch["a"][7] = 9
    assert tensor[7] == batch["b"][0][2] == 9
    assert batch["b"][1] == "text"
    received = pickle.loads(ForkingPickler.dumps(batch["a"]))
    received[7] = 10
    assert tensor[7] == 9, "what is sent on is a copy"
    st.uninstall("torch")
    pinned(tensor)[7] = 11
    assert tensor[7] == 9


def copied_where_the_driver_refuses() -> None:
    install()
    tensor = shared()
    assert _core.cuda_pin(_core.storage_at(tensor.data_ptr(), 1)) == 0
    copied = pinned(tensor)
    copied[0] = 2
    assert tensor[0] == 1
