"""Zero-copy exports: arrays of other libraries whose owners are kept until no process holds the memory."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
from typing import Any

import shmtensor._core as _core

_lock = threading.Lock()
_waiter: threading.Thread | None = None


def export(pointer: int, nbytes: int, owner: Any) -> Any:
    """Return a storage over memory of `owner`, which is kept alive until no process holds the storage."""
    storage = _core.cuda_export(pointer, nbytes, _for_any_thread(owner, pointer))
    global _waiter
    with _lock:
        if _waiter is None:
            waiter = threading.Thread(target=_release_owners, name="shmtensor-release", daemon=True)
            waiter.start()  # may fail: the next export tries again
            _waiter = waiter
            atexit.register(_stop)
    return storage


def _release_owners() -> None:
    # The only thread of this package: what it releases here may be the last reference to GPU memory.
    while _core.cuda_release_freed():
        pass


def _stop() -> None:
    if _core.cuda_stop_waiting() and _waiter is not None:
        _waiter.join(10)


def _for_any_thread(owner: Any, pointer: int) -> Any:
    """Return an object that keeps the owner, and whose last reference any thread may release."""
    pycuda = sys.modules.get("pycuda._driver")
    context = None if pycuda is None else pycuda.Context.get_current()
    return owner if context is None else _OwnerOfPycuda(owner, context, pointer)


class _OwnerOfPycuda:
    """Keeps an owner, and releases it in its context, as PyCUDA knows it.

    PyCUDA has a stack of contexts in each thread, beside the driver's. In a thread where the top is another
    context, it frees memory only if that thread has created the context.
    """

    __slots__ = ("_context", "_owner", "_pointer")

    def __init__(self, owner: Any, context: Any, pointer: int) -> None:
        self._owner = owner
        self._context = context
        self._pointer = pointer

    # A context that was destroyed, and the memory with it, must not be used.
    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            if self._context.handle == _core.cuda_context_of(self._pointer):
                self._context.push()
                del self._owner
                self._context.pop()
