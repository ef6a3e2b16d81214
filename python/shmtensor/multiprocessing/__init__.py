"""A drop-in for the standard library's `multiprocessing` that sends tensors as handles.

Replace ``import multiprocessing as mp`` by ``import shmtensor.multiprocessing as mp``. The first tensor
registers reducers with the standard pickler, so queues and pipes of the standard library carry handles, too.
In those of this module, `put` and `send` raise errors immediately and cancel messages that were not sent.
"""

from __future__ import annotations

import multiprocessing as _standard
import sys as _sys
from contextlib import suppress as _suppress
from importlib import import_module as _import_module
from multiprocessing import (
    AuthenticationError,
    BufferTooShort,
    ProcessError,
    TimeoutError,  # noqa: A004  # the standard module's own name
    active_children,
    current_process,
    parent_process,
    reducer,
)

# Not late: the name is also that of the module, which an import would put in the function's place.
from shmtensor.multiprocessing.spawn import spawn, start_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shmtensor.multiprocessing._frozen import freeze_support
    from shmtensor.multiprocessing._worker_server.client import set_server_preload
    from shmtensor.multiprocessing.context import SpawnContext
    from shmtensor.multiprocessing.context import default_context as _context
    from shmtensor.multiprocessing.errors import (
        ProcessException,
        ProcessExitedException,
        ProcessRaisedException,
        TaskMemory,
        TaskTimeout,
        WorkerLost,
    )
    from shmtensor.multiprocessing.process_context import ProcessContext
    from shmtensor.multiprocessing.queues import JoinableQueue, Queue, SimpleQueue
    from shmtensor.multiprocessing.sharing import (
        get_all_sharing_strategies,
        get_buffer_threshold,
        get_sharing_strategy,
        set_buffer_threshold,
        set_sharing_strategy,
    )
    from shmtensor.multiprocessing.start_method import explain_start_method, own_process

    Array = _context.Array
    Barrier = _context.Barrier
    BoundedSemaphore = _context.BoundedSemaphore
    Condition = _context.Condition
    Event = _context.Event
    Lock = _context.Lock
    Manager = _context.Manager
    Pipe = _context.Pipe
    Pool = _context.Pool
    Process = _context.Process
    RLock = _context.RLock
    RawArray = _context.RawArray
    RawValue = _context.RawValue
    Semaphore = _context.Semaphore
    Value = _context.Value
    allow_connection_pickling = _context.allow_connection_pickling
    cpu_count = _context.cpu_count
    get_all_start_methods = _context.get_all_start_methods
    get_context = _context.get_context
    get_logger = _context.get_logger
    get_start_method = _context.get_start_method
    log_to_stderr = _context.log_to_stderr
    set_executable = _context.set_executable
    set_forkserver_preload = _context.set_forkserver_preload
    set_start_method = _context.set_start_method

__all__ = [
    "Array",
    "AuthenticationError",
    "Barrier",
    "BoundedSemaphore",
    "BufferTooShort",
    "Condition",
    "Event",
    "JoinableQueue",
    "Lock",
    "Manager",
    "Pipe",
    "Pool",
    "Process",
    "ProcessContext",
    "ProcessError",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "Queue",
    "RLock",
    "RawArray",
    "RawValue",
    "Semaphore",
    "SimpleQueue",
    "SpawnContext",
    "TaskMemory",
    "TaskTimeout",
    "TimeoutError",
    "Value",
    "WorkerLost",
    "active_children",
    "allow_connection_pickling",
    "cpu_count",
    "current_process",
    "explain_start_method",
    "freeze_support",
    "get_all_sharing_strategies",
    "get_all_start_methods",
    "get_buffer_threshold",
    "get_context",
    "get_logger",
    "get_sharing_strategy",
    "get_start_method",
    "log_to_stderr",
    "own_process",
    "parent_process",
    "reducer",
    "set_buffer_threshold",
    "set_executable",
    "set_forkserver_preload",
    "set_server_preload",
    "set_sharing_strategy",
    "set_start_method",
    "spawn",
    "start_processes",
]
__dir__ = __all__.copy

# Imported when they are first used: each worker that imports its main module imports this one.
_MODULES = {
    "_frozen": ["freeze_support"],
    "_worker_server.client": ["set_server_preload"],
    "context": ["SpawnContext"],
    "errors": [
        *("ProcessException", "ProcessExitedException", "ProcessRaisedException"),
        *("TaskMemory", "TaskTimeout", "WorkerLost"),
    ],
    "process_context": ["ProcessContext"],
    "sharing": [
        *("get_all_sharing_strategies", "get_buffer_threshold", "get_sharing_strategy"),
        *("set_buffer_threshold", "set_sharing_strategy"),
    ],
    "start_method": ["explain_start_method", "own_process"],
}
_SUBMODULES = frozenset(
    (
        "connection",
        "context",
        "errors",
        "pool",
        "process",
        "process_context",
        "queues",
        "sharedctypes",
        "sharing",
        "start_method",
        "synchronize",
    )
)
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if getattr(_sys.modules.get("multiprocessing"), "__name__", "") == __name__:
        msg = (
            f"{__name__} cannot be in sys.modules in place of the standard library's module, which it needs: "
            "programs import it by its own name; libraries send tensors by the standard module's queues, too"
        )
        raise ImportError(msg)
    if name in _SUBMODULES:
        return _import_module(f"shmtensor.multiprocessing.{name}")
    if name in _MODULE_OF:
        found = getattr(_import_module(f"shmtensor.multiprocessing.{_MODULE_OF[name]}"), name)
    elif name in __all__:
        found = getattr(_import_module("shmtensor.multiprocessing.context").default_context, name)
    else:
        return _of_the_standard_library(name)
    globals()[name] = found
    return found


def _of_the_standard_library(name: str) -> Any:
    """Return constants, and submodules that are not wrapped here."""
    if not name.startswith("_") and not hasattr(_standard, name):
        with _suppress(ImportError):  # `from shmtensor.multiprocessing import shared_memory`
            _import_module(f"multiprocessing.{name}")
    if name.startswith("_") or not hasattr(_standard, name):
        msg = f"module 'shmtensor.multiprocessing' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(_standard, name)
