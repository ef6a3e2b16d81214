"""The start method ``"server"`` in `torch.multiprocessing`, and so in `torch.utils.data.DataLoader`."""

from __future__ import annotations

from typing import Any

import torch.multiprocessing

from shmtensor.integrations._replacements import Replacements

__all__ = ["install", "uninstall"]

_module: Any = torch.multiprocessing
_get_all_start_methods = _module.get_all_start_methods
_get_context = _module.get_context
_replaced = Replacements()


def install() -> None:
    """Add the start method."""
    _replaced.set(_module, "get_all_start_methods", get_all_start_methods)
    _replaced.set(_module, "get_context", get_context)


def uninstall() -> None:
    """Remove it."""
    _replaced.restore()


def get_all_start_methods() -> list[str]:
    """Return the start methods of this platform, the default first, and ``"server"``."""
    return [*_get_all_start_methods(), "server"]


def get_context(method: str | None = None) -> Any:
    """Return the context of a start method; for ``"server"``, that of `shmtensor.multiprocessing`."""
    if method != "server":
        return _get_context(method)
    from shmtensor.multiprocessing.context import default_context

    return default_context.get_context("server")
