"""loky: tensors travel as handles in tasks and results of its executors."""

from __future__ import annotations

from shmtensor.integrations._loky import Loky

__all__ = ["install", "uninstall"]

_loky = Loky("loky")
install, uninstall = _loky.install, _loky.uninstall
