"""The names of devices."""

from __future__ import annotations

__all__ = ["device_number"]


def device_number(device: str) -> int:
    """Return the number of a GPU, or -1 for the host.

    Raises
    ------
    ValueError
        If it is no device's name.
    """
    if device == "cpu":
        return -1
    if device == "cuda":
        return 0
    kind, colon, digits = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind == "cuda" and colon and digits.isascii() and digits.isdigit() and len(digits) < 4:
        return int(digits)
    msg = f"device {device!r} is unknown: there are 'cpu', 'cuda' and 'cuda:0', 'cuda:1' and so on"
    raise ValueError(msg)
