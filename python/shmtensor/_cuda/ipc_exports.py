"""Zero-copy exports: arrays of other libraries whose owners are kept until no process holds the memory."""

from __future__ import annotations

import atexit
import threading
from typing import Any

import shmtensor._core as _core

__all__ = ["export"]

_lock = threading.Lock()
_waiter: threading.Thread | None = None


def export(pointer: int, nbytes: int, owner: Any) -> Any:
    """Return a storage over memory of `owner`, which is kept alive until no process holds the storage."""
    storage = _core.cuda_export(pointer, nbytes, owner)
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
    while (owners := _core.cuda_wait_for_freed()) is not None:
        owners.clear()


def _stop() -> None:
    if _core.cuda_stop_waiting() and _waiter is not None:
        _waiter.join(10)
