"""A drop-in for the standard library's `multiprocessing` that sends tensors as handles.

Replace ``import multiprocessing as mp`` by ``import shmtensor.multiprocessing as mp``. Importing this module
registers reducers with the standard pickler, so queues and pipes of the standard library carry handles, too.
In those of this module, `put` and `send` raise errors immediately and cancel messages that were not sent.
"""

from __future__ import annotations

import multiprocessing as _standard
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
from typing import TYPE_CHECKING, Any

from shmtensor import reducers as _reducers
from shmtensor.multiprocessing._frozen import freeze_support
from shmtensor.multiprocessing._worker_server.client import set_server_preload
from shmtensor.multiprocessing.context import SpawnContext
from shmtensor.multiprocessing.context import default_context as _context
from shmtensor.multiprocessing.errors import (
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    WorkerLost,
)
from shmtensor.multiprocessing.sharing import (
    get_all_sharing_strategies,
    get_buffer_threshold,
    get_sharing_strategy,
    set_buffer_threshold,
    set_sharing_strategy,
)
from shmtensor.multiprocessing.spawn import spawn, start_processes
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
if TYPE_CHECKING:  # so that ``mp.Queue[st.Tensor]`` is a type
    from shmtensor.multiprocessing.process_context import ProcessContext
    from shmtensor.multiprocessing.queues import JoinableQueue, Queue, SimpleQueue
else:
    JoinableQueue = _context.JoinableQueue
    Queue = _context.Queue
    SimpleQueue = _context.SimpleQueue
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


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in {"connection", "pool", "queues"}:
        return _import_module(f"shmtensor.multiprocessing.{name}")
    if name == "ProcessContext":
        return _import_module("shmtensor.multiprocessing.process_context").ProcessContext
    # Other names of the standard module: constants, and submodules that are not wrapped here.
    if not name.startswith("_") and not hasattr(_standard, name):
        with _suppress(ImportError):  # `from shmtensor.multiprocessing import shared_memory`
            _import_module(f"multiprocessing.{name}")
    if name.startswith("_") or not hasattr(_standard, name):
        msg = f"module 'shmtensor.multiprocessing' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(_standard, name)


del _reducers
