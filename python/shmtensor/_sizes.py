"""Sizes for people."""

from __future__ import annotations

__all__ = ["human_bytes"]


def human_bytes(nbytes: float) -> str:
    """Return a size in the unit that fits, as in ``505.1 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} GiB"
