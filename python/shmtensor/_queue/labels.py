"""What `shmtensor ls` and `shmtensor top` call a queue."""

from __future__ import annotations

import sys

_MOST = 40  # bytes
_LIBRARIES = {"shmtensor", "multiprocessing", "concurrent"}


def label_or_place(label: str | None) -> bytes:
    """Return a label in UTF-8; without one, the place in the program that makes the queue.

    Raises
    ------
    TypeError
        If the label is not a string.
    ValueError
        If it is too long.
    """
    if label is None:
        return _place().encode()[-_MOST:]
    if not isinstance(label, str):
        msg = f"a label must be a string, not {type(label).__name__} {label!r}"
        raise TypeError(msg)
    encoded = label.encode()
    if len(encoded) > _MOST:
        msg = f"a label has at most {_MOST} bytes in UTF-8, not {len(encoded)}"
        raise ValueError(msg)
    return encoded


def label_of_kind(kind: str) -> str:
    """Return a label of the kind and the end of that place, as much as fits."""
    place = _place()
    while len(f"{kind} {place}".encode()) > _MOST:
        place = place[1:]
    return f"{kind} {place}"


def _place() -> str:
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
