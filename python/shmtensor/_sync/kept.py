"""Locks that a process dropped while it had them: if it ends, the manager finds them among its blocks."""

from __future__ import annotations

from typing import Any

_kept: dict[int, Any] = {}


# The interpreter's end clears the names of modules, but not default arguments.
def release_kept(kept: dict[int, Any] = _kept) -> None:
    """Release the dropped locks that no other process can use any more."""
    for key, lock in kept.copy().items():
        if not lock._must_be_kept():
            kept.pop(key, None)


def keep(lock: Any, kept: dict[int, Any] = _kept, release: Any = release_kept) -> None:
    """Keep a lock that is dropped, if the process has it."""
    if lock._must_be_kept():
        release()
        kept[id(lock)] = lock
