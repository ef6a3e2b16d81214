"""Transports of tensors between processes, and the data sent with a tensor to check it."""

from __future__ import annotations

import os
import pickle
import random
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import NamedTuple

import numpy as np

import shmtensor as st
from shmtensor import _core
from tests.observer.patterns import mismatch, pattern

VIEWS = {
    "whole": lambda t: t,
    "step": lambda t: t[::2],
    "reverse": lambda t: t[::-1],
    "end": lambda t: t[t.shape[0] // 2 :],
    "rows": lambda t: t[: t.shape[0] // 2 * 2].reshape(-1, 2),
    "transposed": lambda t: t[: t.shape[0] // 2 * 2].reshape(2, -1).T,
}


class Letter(NamedTuple):
    """A tensor and its expected content."""

    tag: int
    words: int
    view: str
    tensor: st.Tensor

    @property
    def base(self) -> Letter:
        """Return a copy without the tensor, which would keep the block."""
        return self._replace(tensor=None)

    def mismatch(self) -> str | None:
        storage = self.tensor.storage()
        if storage.nbytes != self.words * 8:
            return f"{storage.nbytes} bytes received instead of {self.words * 8}"
        if why := mismatch(np.frombuffer(memoryview(storage), np.uint8), self.tag):
            return why
        expected = VIEWS[self.view](pattern(self.tag, self.words))
        if not np.array_equal(self.tensor.numpy(), expected):
            return f"the view {self.view!r} has other elements"
        return None


def new_letter(tag: int, words: int, private: bool = False) -> Letter:
    """Create a tensor with a pattern, shared from the start or (`private`) when it is sent."""
    tensor = st.from_numpy(pattern(tag, words)) if private else st.empty(words, np.uint64)
    if not private:
        tensor.numpy()[:] = pattern(tag, words)
    return Letter(tag, words, "whole", tensor)


def as_view(letter: Letter, rng: random.Random) -> Letter:
    """Return another view of the same bytes."""
    if letter.view != "whole":
        return letter
    view = rng.choice(sorted(VIEWS))
    tensor = VIEWS[view](letter.tensor)
    if rng.random() < 0.2:
        tensor = tensor.as_readonly()
    return letter._replace(view=view, tensor=tensor)


def write_file(letter: Letter, folder: Path, name: str) -> None:
    """Write a message as a file, which appears completely or not at all."""
    new = folder / f"new-{os.getpid()}-{name}"
    with _core.SendScope() as message:
        new.write_bytes(ForkingPickler.dumps(letter))
        new.rename(folder / f"letter-{name}")
        message.delivered()


def read_file(folder: Path, rng: random.Random) -> bytes | None:
    """Take a message file and return its content; None if there is none."""
    names = sorted(name for name in os.listdir(folder) if name.startswith("letter-"))
    if not names:
        return None
    path = folder / rng.choice(names)
    mine = folder / f"taken-{os.getpid()}-{path.name}"
    try:
        path.rename(mine)
        return mine.read_bytes()
    except FileNotFoundError:  # another process has taken it
        return None
    finally:
        with suppress(FileNotFoundError):
            mine.unlink()


def load(content: bytes) -> Letter:
    return pickle.loads(content)
