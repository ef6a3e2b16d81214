"""Callbacks of the program, in the thread of a pool that receives results."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing._pool.naming import describe

if TYPE_CHECKING:
    from collections.abc import Callable


def reporting(callback: Callable[..., object]) -> Callable[..., None]:
    """Return a callback that reports what it raises, and does not end the thread that receives results."""

    def call(*values: Any) -> None:
        try:
            callback(*values)
        except BaseException as error:
            if isinstance(error, SystemExit):  # which the hook would not report
                error = RuntimeError(f"a callback of a pool raised {describe(error)}")
            with suppress(Exception):
                threading.excepthook(
                    threading.ExceptHookArgs(
                        (type(error), error, error.__traceback__, threading.current_thread())
                    )
                )

    return call
