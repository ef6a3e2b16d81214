"""Read-only containers of any items, stored once in shared memory for all processes."""

from __future__ import annotations

from shmtensor.containers._dict import SharedDict
from shmtensor.containers._list import SharedList

__all__ = ["SharedDict", "SharedList"]
__dir__ = __all__.copy
