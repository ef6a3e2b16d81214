"""Shared-memory tensors for Python multiprocessing.

A `Tensor` is stored in memory that every process of the same user can map. Sent through `multiprocessing`
(a `Queue`, a `Pipe`, a `Pool`, the arguments of a `Process`), it takes about 130 bytes for any size, and
no element is copied::

    import shmtensor as st
    import shmtensor.multiprocessing as mp

    def double(tensor):
        tensor *= 2

    if __name__ == "__main__":
        tensor = st.ones((1000, 1000))
        worker = mp.Process(target=double, args=(tensor,))
        worker.start()
        worker.join()
        print(tensor.numpy().sum())  # 2000000.0

Importing this package starts nothing and registers nothing. The first tensor that a process makes or
receives registers reducers with the standard library's pickler, so plain `multiprocessing` sends handles too;
`shmtensor.multiprocessing` is a drop-in replacement whose `put` and `send` raise errors immediately.
"""

from __future__ import annotations

import os as _os
from importlib import import_module as _import_module

import shmtensor._interpreter  # first: it refuses the import in a subinterpreter

# isort: split
import shmtensor._fork  # from now on, a fork waits until other threads have imported modules of this package
import shmtensor._log  # noqa: F401 - its import may fail when it is needed: without descriptors, for example
from shmtensor._version import __version__

TYPE_CHECKING = False  # without `typing`, an import of milliseconds that a worker may not need

if TYPE_CHECKING:
    from shmtensor import atomic, cuda, errors, futures, memory, multiprocessing
    from shmtensor._doctor import doctor
    from shmtensor._queue.broadcast import Broadcast, BroadcastReader
    from shmtensor._queue.cache import SharedCache
    from shmtensor._queue.errors import ShutDown
    from shmtensor._queue.latest import Latest
    from shmtensor._queue.queue import Queue
    from shmtensor._share import share
    from shmtensor._sync.barrier import Barrier
    from shmtensor._sync.condition import Condition
    from shmtensor._sync.event import Event
    from shmtensor._sync.lock import Lock, RLock
    from shmtensor._sync.semaphore import BoundedSemaphore, Semaphore
    from shmtensor.atomic import wait_for_change
    from shmtensor.composition import arange, concatenate, load, stack
    from shmtensor.containers import SharedDict, SharedList
    from shmtensor.creation import (
        asarray,
        empty,
        empty_like,
        from_dlpack,
        from_numpy,
        frombuffer,
        full,
        full_like,
        ones,
        ones_like,
        zeros,
        zeros_like,
    )
    from shmtensor.errors import (
        BuildError,
        CorruptDataError,
        CudaError,
        CudaUnavailable,
        NotPublishedError,
        OutOfSharedMemory,
        OwnerDied,
        ProducerGone,
        SessionError,
        ShmTensorError,
        StaleHandleError,
    )
    from shmtensor.integrations import install, uninstall
    from shmtensor.named_objects import attach, once, publish, unpublish
    from shmtensor.session import gc, set_limit, stats
    from shmtensor.storage import Storage
    from shmtensor.tensor import Tensor

__all__ = [
    "Barrier",
    "BoundedSemaphore",
    "Broadcast",
    "BroadcastReader",
    "BuildError",
    "Condition",
    "CorruptDataError",
    "CudaError",
    "CudaUnavailable",
    "Event",
    "Latest",
    "Lock",
    "NotPublishedError",
    "OutOfSharedMemory",
    "OwnerDied",
    "ProducerGone",
    "Queue",
    "RLock",
    "Semaphore",
    "SessionError",
    "SharedCache",
    "SharedDict",
    "SharedList",
    "ShmTensorError",
    "ShutDown",
    "StaleHandleError",
    "Storage",
    "Tensor",
    "__version__",
    "arange",
    "asarray",
    "atomic",
    "attach",
    "concatenate",
    "cuda",
    "doctor",
    "empty",
    "empty_like",
    "errors",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "futures",
    "gc",
    "install",
    "load",
    "memory",
    "multiprocessing",
    "once",
    "ones",
    "ones_like",
    "publish",
    "set_limit",
    "share",
    "stack",
    "stats",
    "uninstall",
    "unpublish",
    "wait_for_change",
    "zeros",
    "zeros_like",
]
__dir__ = __all__.copy

# A module is imported when one of its names is first used: a process without tensors needs no NumPy.
_MODULES = {
    "_doctor": ["doctor"],
    "_queue.broadcast": ["Broadcast", "BroadcastReader"],
    "_queue.cache": ["SharedCache"],
    "_queue.latest": ["Latest"],
    "_queue.errors": ["ShutDown"],
    "_queue.queue": ["Queue"],
    "_share": ["share"],
    "_sync.barrier": ["Barrier"],
    "_sync.condition": ["Condition"],
    "_sync.event": ["Event"],
    "_sync.lock": ["Lock", "RLock"],
    "_sync.semaphore": ["BoundedSemaphore", "Semaphore"],
    "atomic": ["wait_for_change"],
    "composition": ["arange", "concatenate", "load", "stack"],
    "containers": ["SharedDict", "SharedList"],
    "creation": [
        *("asarray", "empty", "empty_like", "from_dlpack", "from_numpy", "frombuffer", "full", "full_like"),
        *("ones", "ones_like", "zeros", "zeros_like"),
    ],
    "errors": [
        *("BuildError", "CorruptDataError", "CudaError", "CudaUnavailable", "NotPublishedError"),
        *("OutOfSharedMemory", "OwnerDied", "ProducerGone", "SessionError", "ShmTensorError"),
        "StaleHandleError",
    ],
    "integrations": ["install", "uninstall"],
    "named_objects": ["attach", "once", "publish", "unpublish"],
    "session": ["gc", "set_limit", "stats"],
    "storage": ["Storage"],
    "tensor": ["Tensor"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name in {"atomic", "cuda", "errors", "futures", "memory", "multiprocessing"}:
            return _import_module(f"shmtensor.{name}")
        if name not in _MODULE_OF:
            msg = f"module 'shmtensor' has no attribute {name!r}"
            if name == "array":
                msg += ": use asarray"
            raise AttributeError(msg)
        found = globals()[name] = getattr(_import_module(f"shmtensor.{_MODULE_OF[name]}"), name)
        return found


if _os.environ.get("SHMTENSOR_INSTALL"):
    from shmtensor.integrations._registry import install_from_environment as _install

    _install()
