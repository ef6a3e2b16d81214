"""torch's DataLoader over the table, as it is and after ``st.install("torch")``."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ROWS = 512  # of a sample
BATCH = 64


class Blocks(Dataset):
    """Each sample is a block of rows of the table."""

    def __init__(self, table: np.ndarray) -> None:
        count = len(table) // ROWS
        self.blocks = torch.from_numpy(table[: count * ROWS].reshape(count, ROWS, -1))

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.blocks[index % len(self.blocks)]


def batches_per_second(table: np.ndarray, seconds: float) -> float:
    """Return how many batches of a loader with two workers arrive in a second, after the first."""
    torch.set_num_threads(1)
    batches = iter(DataLoader(Blocks(table), batch_size=BATCH, num_workers=2))
    next(batches)
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        next(batches)
        count += 1
    return count / (time.perf_counter() - begin)
