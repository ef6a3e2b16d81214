"""The private parts of the standard library that the start method server leans on, in one place.

`check` looks whether they are there; if a version of Python has changed them, the method says so by name.
"""

from __future__ import annotations

import sys
from multiprocessing import process, resource_tracker, util
from multiprocessing.reduction import ForkingPickler
from typing import Any

__all__ = [
    "adopt_resource_tracker",
    "check",
    "extra_reducers",
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
    (_pickler, "_extra_reducers"),
)


def check() -> None:
    """Raise what names the missing part."""
    for owner, name in _NEEDED:
        if not hasattr(owner, name):
            version = ".".join(map(str, sys.version_info[:3]))
            msg = f"the start method 'server' does not know Python {version}: {owner!r} has no {name}"
            raise NotImplementedError(msg)


def interpreter_arguments() -> list[str]:
    """Return the options that this interpreter was started with."""
    arguments: list[str] = _util._args_from_interpreter_flags()
    return arguments


def adopt_resource_tracker(fd: int) -> None:
    """Use the resource tracker of the process that started this one."""
    _resource_tracker._resource_tracker._fd = fd


def extra_reducers() -> dict[Any, Any]:
    """Return the reducers by which queues and pipes differ from plain pickle; the dict itself."""
    reducers: dict[Any, Any] = _pickler._extra_reducers
    return reducers


def set_inheriting(inheriting: bool) -> None:
    """Allow what may only be unpickled while a process starts, such as authentication keys."""
    current: Any = process.current_process()
    if inheriting:
        current._inheriting = True
    else:
        del current._inheriting


def run_exit_functions() -> None:
    """Join and finalize what `multiprocessing` has in this process."""
    _util._exit_function()
