"""Batches of a `DataLoader` on their way to the GPU: torch alone, and after `st.install("torch")`.

``python -m probes.batches [--json FILE] [--seconds N]`` on a machine with a GPU and torch. Eight workers make
batches: images of 38 MB, or 20 tensors of 4 KiB. The trainer copies each to the GPU with `non_blocking=True`
and adds up a pixel of each image there, which is checked. Measured: milliseconds for a batch, and of the
processor time of the trainer's process, all threads together; GB/s of copies from a batch, and from memory
that torch has pinned itself.
"""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from probes.ways import measure_all

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = 8
IMAGES = 256  # of a batch
BATCHES = 200
COPIES, ROUNDS = 20, 9


class Images:
    """Samples of 150 KB, one value each."""

    def __len__(self) -> int:
        return BATCHES * IMAGES

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.full((3, 224, 224), index % 251, dtype=torch.uint8)


class Records:
    """Samples of 20 tensors of 1 KiB, of which a batch has four."""

    def __len__(self) -> int:
        return BATCHES * 4

    def __getitem__(self, index: int) -> Any:
        import torch

        return [torch.full((1024,), index % 251, dtype=torch.uint8) for _ in range(20)]


def tensors_of(batch: Any) -> list[Any]:
    """Return the tensors of a batch."""
    return batch if isinstance(batch, list) else [batch]


def measure(installed: bool, pinned: bool, found: dict[str, Any], write: Callable[[], None]) -> None:
    """Measure both kinds of batches; fill the results in as they arrive."""
    import torch
    from torch.utils.data import DataLoader

    import shmtensor as st

    if installed:
        st.install("torch")
    torch.zeros(1, device="cuda")
    kinds: dict[str, tuple[Any, int]] = {"images of 38 MB": (Images(), IMAGES), "20 of 4 KiB": (Records(), 4)}
    for name, (samples, size) in kinds.items():
        options: Any = {"num_workers": WORKERS, "pin_memory": pinned, "persistent_workers": True}
        loader = DataLoader(samples, batch_size=size, **options)
        expected = sum(index % 251 for index in range(len(samples)))
        for _ in range(2):  # the first one warms up
            total = torch.zeros(1, device="cuda", dtype=torch.int64)
            began, processor = time.perf_counter(), time.process_time()
            for batch in loader:
                for tensor in tensors_of(batch):
                    on_gpu = tensor.to("cuda", non_blocking=True)
                total += on_gpu.flatten(1)[:, 0].sum()
            torch.cuda.synchronize()
            seconds, used = time.perf_counter() - began, time.process_time() - processor
            if int(total.item()) != expected:
                raise RuntimeError(f"the pixels add up to {total.item()}, not to {expected}")
        batch = tensors_of(next(iter(loader)))[0]
        own = torch.empty(batch.shape, dtype=batch.dtype, pin_memory=True)
        found[name] = {
            "ms": seconds / BATCHES * 1e3,
            "trainer's ms": used / BATCHES * 1e3,
            "is pinned": batch.is_pinned(),
        }
        del loader  # and its workers
        speeds = [(copy_speed(batch), copy_speed(own)) for _ in range(ROUNDS)]
        found[name]["GB/s"], found[name]["GB/s, torch's pinned memory"] = map(
            statistics.median, zip(*speeds, strict=True)
        )
        write()
        del batch
    if installed:
        st.uninstall("torch")


def copy_speed(tensor: Any) -> float:
    """Return the GB/s of copies to the GPU, one after the other."""
    import torch

    target = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
    for _ in range(3):
        target.copy_(tensor, non_blocking=True)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(COPIES):
        target.copy_(tensor, non_blocking=True)
    torch.cuda.synchronize()
    return float(tensor.nbytes * COPIES / (time.perf_counter() - began) / 1e9)


# torch alone first: the integration changes functions of torch.
WAYS = {
    "torch, pinned": partial(measure, False, True),
    "torch": partial(measure, False, False),
    "shmtensor, pinned": partial(measure, True, True),
    "shmtensor": partial(measure, True, False),
}

if __name__ == "__main__":
    sys.exit(measure_all(__doc__, WAYS))
