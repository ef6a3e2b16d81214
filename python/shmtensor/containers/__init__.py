"""Containers of which all processes see one copy."""

from __future__ import annotations

from shmtensor.containers._dict import SharedDict
from shmtensor.containers._list import SharedList

__all__ = ["SharedDict", "SharedList"]


def __dir__() -> list[str]:
    return __all__
