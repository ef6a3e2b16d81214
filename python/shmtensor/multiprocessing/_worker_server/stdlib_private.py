"""The private names of the standard library that the start method ``"server"`` depends on.

`check` raises an error that names what a version of Python lacks.
"""

from __future__ import annotations

import sys
from multiprocessing import process, resource_tracker, util
from multiprocessing.reduction import ForkingPickler
from typing import Any

__all__ = [
    "adopt_resource_tracker",
    "check",
    "interpreter_arguments",
    "run_exit_functions",
    "set_inheriting",
]

_process: Any = process
_resource_tracker: Any = resource_tracker
_util: Any = util
_pickler: Any = ForkingPickler

_NEEDED = (
    (_process.BaseProcess, "_bootstrap"),
    (_resource_tracker, "_resource_tracker"),
    (_resource_tracker._resource_tracker, "_fd"),
    (_util, "_args_from_interpreter_flags"),
    (_util, "_exit_function"),
    (_pickler, "_extra_reducers"),  # for _reducer_tables
)


def check() -> None:
    """Raise `NotImplementedError` for the first missing name."""
    for owner, name in _NEEDED:
        if not hasattr(owner, name):
            version = ".".join(map(str, sys.version_info[:3]))
            msg = (
                f"the start method 'server' is not supported on Python {version}: "
                f"{owner!r} has no attribute {name}"
            )
            raise NotImplementedError(msg)


def interpreter_arguments() -> list[str]:
    """Return the command-line options of this interpreter."""
    arguments: list[str] = _util._args_from_interpreter_flags()
    return arguments


def adopt_resource_tracker(fd: int) -> None:
    """Use the resource tracker of the process that started this one."""
    _resource_tracker._resource_tracker._fd = fd


def set_inheriting(inheriting: bool) -> None:
    """Allow unpickling what is sent only at the start of a process, such as authentication keys."""
    current: Any = process.current_process()
    if inheriting:
        current._inheriting = True
    else:
        del current._inheriting


def run_exit_functions() -> None:
    """Run the exit functions of `multiprocessing` in this process."""
    _util._exit_function()
