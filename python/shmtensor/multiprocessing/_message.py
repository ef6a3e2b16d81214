"""Messages as they are read."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from typing import Any

import shmtensor._core as _core
from shmtensor.errors import StaleHandleError

__all__ = ["loads"]


def loads(content: bytes) -> Any:
    """Unpickle a message that nobody can read another time.

    If that fails, the tensors in it that were not read yet are let go: their bytes would stay allocated for
    a reader who never comes.
    """
    try:
        return ForkingPickler.loads(content)
    except BaseException:
        _spend(content)
        raise


def _spend(content: bytes) -> None:
    # An end with the first error: the pickle is damaged, memory is short, or the manager does not answer, for
    # which each handle would wait.
    with suppress(Exception):
        import pickletools

        for _, argument, _ in pickletools.genops(content):
            if isinstance(argument, bytes):
                with suppress(StaleHandleError):  # is no handle, or what it names is gone
                    _core.cancel_handle(argument)
