"""What a process that ends as it should does with its shares of primitives.

If a process is killed, the manager gives back what it has of a semaphore, and breaks the barriers in which it
takes part. One that exits may have left a unit to another process, and does not come back to a barrier.
"""

from __future__ import annotations

from contextlib import suppress
from multiprocessing import util
from typing import Any
from weakref import WeakValueDictionary

from shmtensor._fork import after_fork_in_child

_primitives: WeakValueDictionary[int, Any] = WeakValueDictionary()


def disown_at_exit(primitive: Any) -> None:
    """Call the primitive's method `_disown` at the end of this process, and of its forked children."""
    _primitives[id(primitive)] = primitive


def _disown_all() -> None:
    for reference in _primitives.valuerefs():  # a list, as other threads may still make primitives
        if (primitive := reference()) is not None:
            with suppress(Exception):  # the session may have ended
                primitive._disown()


def _register(_: object = None) -> None:
    util.Finalize(None, _disown_all, exitpriority=0)  # after those of pools and executors


_register()
util.register_after_fork(_primitives, _register)  # a Process begins with an empty list of finalizers
after_fork_in_child(_register)
