"""Lifelines: what ends a worker, and what it started, when the process that started it is gone.

A pipe, whose writing end only the parent has open. The kernel signals the holder of the reading end when
the parent is gone; a handler in C++ (csrc/os/tether.hpp) then kills the holder's descendants and itself.
There is no thread, no helper process and no polling. docs/design/launch.md tells what else was considered.
"""

from __future__ import annotations

import contextlib
import os
from multiprocessing import reduction
from typing import Any

import shmtensor._core as _core
from shmtensor.multiprocessing._parent_only import Descriptor, keep_from_children, no_fork

__all__ = ["Lifeline", "lifeline_for_child"]


class Lifeline:
    """One child's line. It travels with the Process object, of which the child gets the reading end."""

    def __init__(self) -> None:
        with no_fork():
            self._reader, self._writer = map(Descriptor, os.pipe())
            keep_from_children(self)

    def __reduce__(self) -> Any:
        return _Held, (reduction.DupFd(self._reader.fileno()),)

    def started(self, pid: int) -> None:
        """Tie the child before its own code runs, in the parent."""
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            _core.tie(self._reader.fileno(), pid)
        self._reader.close()

    def hold(self) -> None:
        """Hold on, in a forked child."""
        _hold(self._reader.detach())

    def forget_in_child(self) -> None:
        """Close what only the parent may have open, in any forked child."""
        self._writer.close()

    def cut(self) -> None:
        """End the child and what it started, if they live; the parent needs the line no more."""
        self._reader.close()
        self._writer.close()


class _Held:
    """What a child that was not forked finds in its Process object."""

    def __init__(self, duplicate: Any) -> None:
        self._reader = duplicate.detach()

    def hold(self) -> None:
        _hold(self._reader)


# What follows is for processes that hold a line: their own children shall end with them.

_held = -1
_forked_children: tuple[int, int] | None = None


def _hold(tether: int) -> None:
    global _held
    before, _held = _held, tether
    if before < 0:
        os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
    os.set_inheritable(tether, True)  # an exec shall not cut it
    _core.hold_on(tether)
    if before >= 0:
        os.close(before)


def _before_fork() -> None:
    global _forked_children
    with no_fork():
        if _forked_children is None:
            _forked_children = os.pipe()


def _after_fork() -> None:
    global _forked_children
    if _forked_children is not None:
        reader, writer = _forked_children
        _forked_children = None
        os.close(writer)
        # Opened anew: each child needs a description of its own, since that has one owner.
        _hold(_core.open_tether(reader))
        os.close(reader)


def lifeline_for_child() -> Lifeline | None:
    """Return a line for a child of this process if it holds one itself, else None."""
    return Lifeline() if _held >= 0 else None
