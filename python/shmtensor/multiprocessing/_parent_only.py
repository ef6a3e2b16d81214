"""Descriptors that a forked child must not keep: with them open, nobody would notice the parent's death."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["keep_from_children"]


class _ParentOnly(Protocol):
    def forget_in_child(self) -> None: ...


_things: weakref.WeakSet[_ParentOnly] = weakref.WeakSet()
_registered = False


def keep_from_children(thing: _ParentOnly) -> None:
    """Have `thing.forget_in_child` called in every child that this process forks."""
    global _registered
    if not _registered:
        _registered = True
        os.register_at_fork(after_in_child=_forget)
    _things.add(thing)


def _forget() -> None:
    things = list(_things)
    _things.clear()
    for thing in things:
        thing.forget_in_child()
