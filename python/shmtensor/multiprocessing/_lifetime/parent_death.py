"""Parent-death pipes: they end a worker, and what it started, when the process that started it ends.

Only the parent has the writing end of the pipe open. The kernel signals the owner of the reading end when the
parent is gone; a handler in C++ (csrc/os/parent_death.hpp) then kills the owner's descendants and the owner
itself. This needs no thread, no helper process and no polling. docs/design/fork-and-exit.md compares the
alternatives.
"""

from __future__ import annotations

import contextlib
import os
from multiprocessing import reduction

import shmtensor._core as _core
from shmtensor._fork import (
    Descriptor,
    after_fork_in_child,
    no_fork,
    reset_in_forked_children,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ParentDeathPipe:
    """The pipe of one child. It is pickled with the Process object; the child gets the reading end."""

    def __init__(self) -> None:
        with no_fork():
            self._reader, self._writer = map(Descriptor, os.pipe())
            reset_in_forked_children(self)

    def __reduce__(self) -> Any:
        return _ReadingEnd, (reduction.DupFd(self._reader.fileno()),)

    def started(self, pid: int) -> None:
        """Make the child the pipe's owner before its own code runs; called in the parent."""
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            _core.bind_parent_death_signal(self._reader.fileno(), pid)
        self._reader.close()

    def arm(self) -> None:
        """Install the handler in this process, a forked child."""
        _arm(self._reader.detach())

    def reset_in_child(self) -> None:
        """Close the writing end, in any forked child."""
        self._writer.close()

    def close(self) -> None:
        """Close both ends, which ends the child and what it started if they still live."""
        self._reader.close()
        self._writer.close()


class _ReadingEnd:
    """A `ParentDeathPipe` as it is unpickled in a child that was not forked."""

    def __init__(self, duplicate: Any) -> None:
        self._reader = duplicate.detach()

    def arm(self) -> None:
        _arm(self._reader)


# The rest is for processes that own a pipe: their own children end with them, too.

_own_reader = -1
_pipe_of_forked_children: tuple[int, int] | None = None


def _arm(reader: int) -> None:
    global _own_reader
    before, _own_reader = _own_reader, reader
    os.set_inheritable(reader, True)  # the signal still comes after an exec
    _core.arm_parent_death_signal(reader)
    if before >= 0:
        os.close(before)


def _open_pipe() -> None:
    global _pipe_of_forked_children
    if _own_reader < 0:
        return
    with no_fork():
        if _pipe_of_forked_children is None:
            _pipe_of_forked_children = os.pipe()


os.register_at_fork(before=_open_pipe)


@after_fork_in_child
def _arm_child() -> None:
    global _pipe_of_forked_children
    if _pipe_of_forked_children is not None:
        reader, writer = _pipe_of_forked_children
        _pipe_of_forked_children = None
        os.close(writer)
        # Reopened: an open file description has one owner, so each child needs its own.
        _arm(_core.open_parent_death_pipe(reader))
        os.close(reader)


def pipe_for_child() -> ParentDeathPipe | None:
    """Return a pipe for a child of this process, or None if this process does not own one itself."""
    return ParentDeathPipe() if _own_reader >= 0 else None
