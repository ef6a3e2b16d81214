"""Processes fine-tune the weights of one shared model, each its own pages, while others read the model."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp

LAYERS, WIDTH = 4, 1024  # 4 MiB a layer


def copied() -> int:
    """Return the private memory of this process, in bytes."""
    return 1024 * int(re.search(r"RssAnon:\s*(\d+)", Path("/proc/self/status").read_text())[1])


def fine_tune(model, rate: float) -> tuple[float, float, int]:
    """Fine-tune the last layer only; return its mean, that of the first one, and the bytes that it took."""
    layers = [st.from_numpy(model[f"layer {i}"]).numpy(private=True) for i in range(LAYERS)]
    before = copied()
    for _ in range(3):
        layers[-1] += rate
    taken = copied() - before
    return float(layers[-1].mean()), float(layers[0].mean()), taken


def check(model) -> None:
    """Check that the model is as it was made, in a process that reads it later."""
    for i in range(LAYERS):
        assert (model[f"layer {i}"] == i).all()


if __name__ == "__main__":
    model = st.SharedDict({f"layer {i}": np.full((WIDTH, WIDTH), i, np.float32) for i in range(LAYERS)})
    for method in "fork", "spawn":
        with mp.get_context(method).Pool(2) as pool:
            for rate, tuned in zip((1, 2), pool.starmap(fine_tune, [(model, 1), (model, 2)]), strict=True):
                last, first, taken = tuned
                assert (last, first) == (LAYERS - 1 + 3 * rate, 0)
                assert 4 << 20 <= taken < 6 << 20, taken
            check(model)
            pool.apply(check, (model,))
    print("the model is as it was")
