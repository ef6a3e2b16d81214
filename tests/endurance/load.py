"""Workers that make batches and a trainer that receives them, as in a data loader."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp

SIZES = [1 << 16, 1 << 18, 400_000, 1 << 20, 4 << 20]  # bytes of a batch's images


def work(seed: int, wanted: Any, made: Any) -> None:
    """Send a batch for each received number: images that contain the number, labels, and the time."""
    rng = np.random.default_rng(seed)
    while (number := wanted.get()) is not None:
        images = st.empty((8, int(rng.choice(SIZES)) // 8), np.uint8)
        images.numpy()[:] = number % 251
        labels = st.full(64, number, np.int64)
        made.put({"number": number, "images": images, "labels": labels, "sent": time.monotonic()})


class Loader:
    """Keeps the workers busy and returns their batches."""

    def __init__(self, workers: int, ahead: int = 4) -> None:
        context = mp.get_context("spawn")
        self.wanted, self.made = context.Queue(), context.Queue()
        self.processes = [
            context.Process(target=work, args=(seed, self.wanted, self.made), daemon=True)
            for seed in range(workers)
        ]
        for process in self.processes:
            process.start()
        self.asked = self.taken = 0
        for _ in range(ahead * workers):
            self._ask()

    def _ask(self) -> None:
        self.wanted.put(self.asked)
        self.asked += 1

    def take(self) -> float:
        """Check and release the next batch; return how long it was in transit, in seconds."""
        batch = self.made.get(timeout=60)
        late = time.monotonic() - batch["sent"]
        number, images = batch["number"], batch["images"].numpy()
        assert (batch["labels"].numpy() == number).all(), "another batch's labels"
        assert (images[::7, ::97] == number % 251).all(), "another batch's images"
        self.taken += 1
        self._ask()
        return late

    def close(self) -> None:
        for _ in self.processes:
            self.wanted.put(None)
        while self.taken < self.asked:
            self.made.get(timeout=60)
            self.taken += 1
        for process in self.processes:
            process.join(60)
            assert process.exitcode == 0, process
