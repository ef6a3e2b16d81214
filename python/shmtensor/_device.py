"""The names of devices."""

from __future__ import annotations

__all__ = ["check_device"]


def check_device(device: str) -> str:
    """Return the device's full name.

    Raises
    ------
    ValueError
        If there is no such device here.
    """
    if device == "cpu":
        return device
    msg = f"device {device!r} is not available: this version of shmtensor shares host memory ('cpu')"
    raise ValueError(msg)
