"""Frozen programs (PyInstaller), where `sys.executable` is the program: which process this one shall be."""

from __future__ import annotations

import multiprocessing
import sys

SERVER = "from shmtensor.multiprocessing._worker_server.server import main"  # in the code of a worker server


def freeze_support() -> None:
    """Become the worker, or helper process, that a frozen program was started for; else return.

    Call it first in the main guard of a program that is frozen, as `multiprocessing.freeze_support`.
    """
    if is_server():
        exec(sys.argv[-1], {})  # noqa: S102 - what the interpreter does with -c
        sys.exit()
    multiprocessing.freeze_support()  # PyInstaller replaces it


def is_server() -> bool:
    """Return True if this is a frozen program that was started to be the worker server."""
    return getattr(sys, "frozen", False) and sys.argv[-2:-1] == ["-c"] and SERVER in sys.argv[-1]
