"""The logger ``shmtensor``: what goes wrong in the background."""

from __future__ import annotations

import sys

__all__ = ["log_event", "log_report"]


def log_report(failure: bool, text: str) -> bool:
    """Log a report of the core; return False if the program has not configured logging.

    The core then writes a failure to standard error, and drops an event. A program that has not imported
    `logging` has not configured it, and does not wait for the import.
    """
    logging = sys.modules.get("logging")
    if logging is None:
        return False
    logger = logging.getLogger("shmtensor")
    if not logger.hasHandlers():
        return False
    logger.log(logging.ERROR if failure else logging.WARNING, "%s", text)
    return True


def log_event(text: str) -> None:
    """Log something that failed and from which this process has recovered."""
    log_report(False, text)
