"""The pattern that fills every tensor of the torture test: all words follow from the first one."""

from __future__ import annotations

import numpy as np

MARK = 0x5417 << 48  # the upper 16 bits of the first word
STEP = np.uint64(0x9E3779B97F4A7C15)


def new_tag(number: int) -> int:
    """Return the first word of a pattern."""
    return MARK | (number & ((1 << 48) - 1))


def pattern(tag: int, count: int) -> np.ndarray:
    """Return `count` words of 8 bytes."""
    return np.arange(count, dtype=np.uint64) * STEP + np.uint64(tag)


def mismatch(content: bytes | memoryview | np.ndarray, tag: int | None = None) -> str | None:
    """Return the first difference from a pattern (that of `tag`), or None."""
    words = np.frombuffer(content, np.uint64)
    if tag is None:
        tag = int(words[0])
        if tag & (0xFFFF << 48) != MARK:
            return f"the first word {tag:#x} does not start a pattern"
    wrong = np.flatnonzero(words != pattern(tag, words.size))
    if wrong.size == 0:
        return None
    return f"{wrong.size} of {words.size} words are wrong, the first at {wrong[0]}: {int(words[wrong[0]]):#x}"
