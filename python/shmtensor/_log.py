"""The logger ``shmtensor``: what goes wrong in the background.

Handlers and filters are the program's. What they raise is written to standard error and ends neither a thread
of this package nor a call that only logs.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def log_report(failure: bool, text: str) -> bool:
    """Log a report of the core; return False if the program has not configured logging, or it raises.

    The core then writes a failure to standard error, and drops an event. A program that has not imported
    `logging` has not configured it, and does not wait for the import.
    """
    logging = sys.modules.get("logging")
    return logging is not None and _guarded(lambda: _log_if_configured(logging, failure, text))


def log_event(text: str) -> None:
    """Log something that failed and from which this process has recovered."""
    log_report(False, text)


def log_warning(logger: str, text: str, *arguments: object) -> None:
    """Log a warning, to standard error if the program has not configured logging."""
    import logging

    _guarded(lambda: logging.getLogger(logger).warning(text, *arguments))


def _log_if_configured(logging: Any, failure: bool, text: str) -> bool:
    logger = logging.getLogger("shmtensor")
    if not logger.hasHandlers():
        return False
    logger.log(logging.ERROR if failure else logging.WARNING, "%s", text)
    return True


def _guarded(log: Callable[[], Any]) -> bool:
    """Return the result of a function; False if it raises an error.

    KeyboardInterrupt and SystemExit reach the program in its main thread.
    """
    try:
        return bool(log())
    except BaseException as error:
        if not isinstance(error, Exception) and threading.get_ident() == threading.main_thread().ident:
            raise
        import traceback

        with suppress(Exception):  # there may be no standard error
            traceback.print_exc()
        return False
