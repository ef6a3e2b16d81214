"""The default start method of this process, where it is not one that the standard library knows."""

from __future__ import annotations

_default: str | None = None


def set_default(method: str | None) -> None:
    """Make ``"server"`` or ``"auto"`` the default of this process; any other: the standard library's."""
    global _default
    _default = method if method in {"server", "auto"} else None


def get_default() -> str | None:
    """Return ``"server"`` or ``"auto"`` if that is the default of this process, else None."""
    return _default
