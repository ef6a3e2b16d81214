"""GPU support: availability, synchronization, events.

Importing this module does not load the CUDA driver; its functions do. Without a driver `is_available`
returns False, and tensors in host memory work.
"""

from __future__ import annotations

import shmtensor._core as _core
from shmtensor._cuda.events import Event
from shmtensor._cuda.events import collect as _collect_events
from shmtensor._event_reducers import get_sync, set_sync
from shmtensor._values import device_number
from shmtensor.errors import CudaError

__all__ = ["Event", "device_count", "get_sync", "ipc_collect", "is_available", "set_sync", "synchronize"]
__dir__ = __all__.copy


def is_available() -> bool:
    """Return True if this process has a driver and a GPU, and is not a forked child."""
    return device_count() > 0


def device_count() -> int:
    """Return the number of GPUs visible to this process; 0 where CUDA cannot be used."""
    try:
        return _core.cuda_count()
    except CudaError:
        return 0


def synchronize(device: str = "cuda") -> None:
    """Wait until all work that this process has submitted to the GPU is done.

    Raises
    ------
    CudaError
        If the driver reports that the work failed.
    """
    _core.cuda_synchronize(device_number(device))


def ipc_collect() -> None:
    """Release GPU resources that no process holds; rarely needed, kept for code written for torch.

    An exported array is released within milliseconds of its last holder's end, without this call. Idle
    memory of tensors that shmtensor allocated is kept for the next ones until this call, or `shmtensor.gc`.
    """
    _core.cuda_collect()
    _collect_events()
    _core.gc(1e12)
