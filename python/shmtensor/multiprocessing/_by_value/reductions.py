"""Reductions of what definitions refer to, and pickle refuses or sends by a name in `__main__`."""

from __future__ import annotations

import struct
import sys
import threading
import typing
import weakref
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing._by_value.names import MAIN, find

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_CACHED = {"__wrapped__", "cache_parameters"}  # the attributes that `lru_cache` adds


def parts_of_cached(cached: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of `make_cached` and `fill_cached` for a function with a cache."""
    function = cached.__wrapped__
    own = {
        name: value
        for name, value in vars(cached).items()
        if name not in _OF_CACHED and getattr(function, name, None) is not value
    }
    return (function, cached.cache_parameters()), own


def make_cached(function: Any, parameters: dict[str, Any]) -> Any:
    """Return a function with an empty cache, as a module that is imported again has it."""
    return lru_cache(**parameters)(function)


def fill_cached(made: Any, attributes: dict[str, Any]) -> None:
    """Add the attributes that the program has added."""
    vars(made).update(attributes)


def of_structure(arguments: tuple[Any, ...], state: Any) -> tuple[tuple[Any, ...], Any]:
    """Return cloudpickle's arguments and state for a structure or union of ctypes.

    Its bases determine its metaclass, which cannot be imported. Assigning `_fields_` makes the descriptors of
    fields, by what was assigned before.
    """
    attributes, slots = state
    kept = {name: value for name, value in attributes.items() if type(value).__name__ != "CField"}
    if "_fields_" in kept:
        kept["_fields_"] = kept.pop("_fields_")
    return (type, *arguments[1:]), (kept, slots)


def with_file_name(reduce: Callable[[Any], tuple[Any, tuple[Any, ...]]]) -> Callable[[Any], Any]:
    """Return cloudpickle's reducer of code with the name of the file, whose lines tracebacks show."""

    def reduce_code(code: Any) -> tuple[Any, tuple[Any, ...]]:
        make, arguments = reduce(code)
        return make, tuple(
            code.co_filename if isinstance(part, str) and part == "<dynamic-code>" else part
            for part in arguments
        )

    return reduce_code


def _reduce_property(made: cached_property[Any]) -> tuple[Any, ...]:
    """Leave its lock out, which it has before Python 3.12."""
    return cached_property, (made.func,), {name: part for name, part in vars(made).items() if name != "lock"}


def _reduce_new_type(made: Any) -> Any:
    if _is_imported(made, made.__qualname__):
        return made.__qualname__
    return typing.NewType, (made.__qualname__, made.__supertype__), {"__module__": made.__module__}


def _reduce_parameters(made: Any) -> Any:
    return made.__name__ if _is_imported(made, made.__name__) else (type(made), (made.__name__,))


def _is_imported(made: Any, name: str) -> bool:
    return made.__module__ not in MAIN and find(name, made.__module__) is made


# `functools.singledispatch` has one. What nothing else refers to is dropped by the receiver.


def _reduce_weak_dictionary(made: Any) -> tuple[Any, ...]:
    return type(made), (dict(made),)


def _reduce_weak_set(made: weakref.WeakSet[Any]) -> tuple[Any, ...]:
    return weakref.WeakSet, (list(made),)


def _reduce_local(_: threading.local) -> tuple[Any, ...]:
    return threading.local, ()  # another thread sees nothing of it, either


def _reduce_struct(made: struct.Struct) -> tuple[Any, ...]:
    return struct.Struct, (made.format,)


REDUCTIONS: dict[type, Callable[[Any], Any]] = {
    cached_property: _reduce_property,
    struct.Struct: _reduce_struct,
    threading.local: _reduce_local,
    typing.NewType: _reduce_new_type,
    typing.ParamSpec: _reduce_parameters,
    weakref.WeakKeyDictionary: _reduce_weak_dictionary,
    weakref.WeakSet: _reduce_weak_set,
    weakref.WeakValueDictionary: _reduce_weak_dictionary,
}
if sys.version_info >= (3, 11):
    REDUCTIONS[typing.TypeVarTuple] = _reduce_parameters
