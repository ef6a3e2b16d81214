"""The start method ``"server"`` in other libraries' copies of `multiprocessing`."""

from __future__ import annotations

from typing import Any

from shmtensor.integrations._replacements import Replacements


class ServerMethod:
    """The start method in one module, and so in what asks that module for contexts.

    Parameters
    ----------
    module
        Has `get_all_start_methods` and `get_context`.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._get_all_start_methods = module.get_all_start_methods
        self._get_context = module.get_context
        self._replaced = Replacements()
        self.uninstall = self._replaced.restore

    def install(self) -> None:
        """Add the start method."""
        self._replaced.set(self._module, "get_all_start_methods", self.get_all_start_methods)
        self._replaced.set(self._module, "get_context", self.get_context)

    def get_all_start_methods(self) -> list[str]:
        """Return the start methods of this platform, the default first, and ``"server"``."""
        return [*self._get_all_start_methods(), "server"]

    def get_context(self, method: str | None = None) -> Any:
        """Return the context of a start method; for ``"server"``, that of `shmtensor.multiprocessing`."""
        if method != "server":
            return self._get_context(method)
        from shmtensor.multiprocessing.context import default_context

        return default_context.get_context("server")
