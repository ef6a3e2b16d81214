"""Integrations: other libraries' objects travel as handles, after one call of `install`.

There is one module for each library, named after the library's package. docs/design/integrations.md describes
what such a module contains.
"""

from __future__ import annotations

from shmtensor.integrations._registry import install, uninstall

__all__ = ["install", "uninstall"]


def __dir__() -> list[str]:
    return __all__
