"""Processes that build an object each, where one of them should build it for all."""

from __future__ import annotations

import os
import sys
import warnings

import shmtensor._core as _core
from shmtensor._procfs import children, runs_this_interpreter

_warned = False


def warn_of_siblings(stacklevel: int) -> None:
    """Warn once if this process builds in a session of its own, beside other programs of its parent."""
    global _warned
    if _warned or hasattr(sys, "ps1") or not _core.home_is_of_this_process():  # ps1: a person's only process
        return
    parent = os.getppid()
    # A program that its parent executes alone has no others to share with.
    siblings = set(children(parent)) - {os.getpid()}
    if runs_this_interpreter(parent) and any(map(runs_this_interpreter, siblings)):
        _warned = True
        msg = (
            "this process builds in a session of its own, which other programs that its parent (pid "
            f"{parent}, a Python program) executes do not join. If they call `once` too, set the environment "
            "variable SHMTENSOR_SESSION to the same text for all of them; if there are none, to any text"
        )
        warnings.warn(msg, RuntimeWarning, stacklevel)
