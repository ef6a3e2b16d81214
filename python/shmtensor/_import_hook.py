"""Calling a function after a package has been imported, in whatever way.

A finder before all others lets the others find the package, and adds a step after the loader's
`exec_module`; no other thread can use the package before. If the step raises, the import succeeds, and a
warning reports it. For integrations, and for `multiprocessing`, whose import takes longer than to join a
session and attach an object.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_waiting: dict[str, dict[tuple[Any, ...], None]] = {}
"""The calls, in their order, by the name of the package."""


def when_imported(name: str, function: Callable[..., None], *arguments: Any) -> None:
    """Call `function`, which may be called repeatedly, when the package is completely imported.

    If it is imported already, the call happens now, and its exception is raised. Otherwise the call happens
    in the thread that imports the package, before any other thread can use the package; an exception is
    reported as a warning there, since the import itself has succeeded. A call that is requested repeatedly
    happens once.
    """
    call = (function, *arguments)
    _waiting.setdefault(name, {})[call] = None
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if name in sys.modules:
        importlib.import_module(name)  # waits for another thread that is importing it
        _waiting.get(name, {}).pop(call, None)
        function(*arguments)


class _Finder:
    """Finds what is waited for with the finders after it, and adds a step to the package's loader."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not _waiting.get(name):
            return None
        for finder in sys.meta_path:
            find = None if isinstance(finder, _Finder) else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find and find(name, path, target)
            if spec is not None:
                _add_step(spec)
                return spec
        return None


def _add_step(spec: ModuleSpec) -> None:
    loader: Any = spec.loader
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        for function, *arguments in list(_waiting.pop(spec.name, {})):
            _call(spec.name, function, arguments)

    loader.exec_module = exec_module  # the object's own: each spec has a loader of its own


def _call(name: str, function: Callable[..., None], arguments: list[Any]) -> None:
    try:
        function(*arguments)
    except Exception as error:
        msg = f"shmtensor could not set up {name}, whose objects are sent as without it: {error!r}"
        warnings.warn(msg, RuntimeWarning, stacklevel=2)
