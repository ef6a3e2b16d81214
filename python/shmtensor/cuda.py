"""What concerns GPUs: is there one, waiting, events, what is shared in place.

Nothing here, and no import, loads the driver before it is asked for something. Without a driver
`is_available` is False and everything on the host works.
"""

from __future__ import annotations

import shmtensor._core as _core
from shmtensor._cuda_events import Event, get_sync, set_sync
from shmtensor._cuda_events import collect as _collect_events
from shmtensor._device import device_number
from shmtensor.errors import CudaError, CudaUnavailable

__all__ = ["Event", "device_count", "get_sync", "ipc_collect", "is_available", "set_sync", "synchronize"]


def __dir__() -> list[str]:
    return __all__


def is_available() -> bool:
    """Can this process use a GPU? False without a driver, without a GPU, and in a forked child."""
    return device_count() > 0


def device_count() -> int:
    """Return how many GPUs this process sees; 0 where CUDA cannot be used."""
    try:
        return _core.cuda_count()
    except CudaError:
        return 0


def why_unavailable() -> str | None:
    """Return why `is_available` is False, in the words of the error that using a GPU would raise."""
    try:
        return None if _core.cuda_count() else "no GPU is visible"
    except CudaUnavailable as error:
        return str(error)


def synchronize(device: str = "cuda") -> None:
    """Wait until everything that this process has started on the GPU is done.

    Raises
    ------
    CudaError
        If the driver reports that something went wrong there.
    """
    _core.cuda_synchronize(device_number(device))


def ipc_collect() -> None:
    """Let go of what nobody holds any more, and give idle GPU memory back.

    Arrays shared in place are let go by themselves within milliseconds of their last holder's end; this
    is for who is used to asking. Idle memory of tensors that shmtensor allocated is kept for the next ones
    until this is called, or `shmtensor.gc`.
    """
    _core.cuda_collect().clear()
    _collect_events()
    _core.gc(1e12)
