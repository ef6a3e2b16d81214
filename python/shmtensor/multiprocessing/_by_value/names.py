"""Which functions and classes another process cannot import by their names."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import FunctionType
from typing import Any

MAIN = {"__main__", "__mp_main__"}
CachedFunction: Any = type(lru_cache(len))  # what `functools.cache` and `lru_cache` return


def find(name: str, module: str = "__main__") -> Any:
    """Return what a module has under a qualified name, None if nothing."""
    found: Any = sys.modules.get(module)
    for part in name.split(".") if "." in name else (name,):
        found = getattr(found, part, None)
    return found


def is_by_value(obj: Any) -> bool:
    """Return True for a function or class that another process cannot import by its name."""
    kind = type(obj)
    is_function = kind is FunctionType or kind is CachedFunction
    if not (is_function or issubclass(kind, type)):
        return False
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if module is None or name is None:
        return False
    if module in MAIN:
        return True
    return find(name, module) is not obj and (is_function or "<locals>" in name)
