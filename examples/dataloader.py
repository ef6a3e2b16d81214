"""A DataLoader whose workers stack batches in shared memory: python examples/dataloader.py [SECONDS].

It prints how many batches of 64 images (37 MiB) a second arrive, with and without shmtensor.
"""

from __future__ import annotations

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

import shmtensor as st


class Images(Dataset):
    """Random images and their labels."""

    def __init__(self) -> None:
        self.images = torch.rand(256, 3, 224, 224)

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.images[index % 256], index % 10


def batches_per_second(seconds: float) -> float:
    """Return the rate of batches, after the first."""
    batches = iter(DataLoader(Images(), batch_size=64, num_workers=2))
    next(batches)
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        images, labels = next(batches)
        assert images.shape == (64, 3, 224, 224)
        assert labels.shape == (64,)
        count += 1
    return count / passed


if __name__ == "__main__":
    torch.set_num_threads(1)
    duration = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    alone = batches_per_second(duration)
    st.install("torch")
    ours = batches_per_second(duration)
    print(f"batches a second: torch {alone:.1f}, with shmtensor {ours:.1f}, {ours / alone:.1f} times as many")
