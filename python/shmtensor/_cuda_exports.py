"""Arrays of other libraries, shared where they lie: their owners are kept until nobody has them."""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core

if TYPE_CHECKING:
    from shmtensor.storage import Storage

__all__ = ["export"]

_lock = threading.Lock()
_waiter: threading.Thread | None = None


def export(pointer: int, nbytes: int, owner: Any) -> Storage:
    """Share memory that `owner` keeps; it is kept alive until no process holds the storage."""
    storage = _core.cuda_export(pointer, nbytes, owner)
    global _waiter
    with _lock:
        if _waiter is None:
            _waiter = threading.Thread(target=_let_go, name="shmtensor-let-go", daemon=True)
            _waiter.start()
            atexit.register(_stop)
    return storage


def _let_go() -> None:
    # The one thread of this package: what it drops here may be the last reference to GPU memory.
    while (owners := _core.cuda_wait_for_freed()) is not None:
        owners.clear()


def _stop() -> None:
    if _core.cuda_stop_waiting() and _waiter is not None:
        _waiter.join(10)
