"""Snapshots of what a function or class refers to, so that it is sent again after a change.

A function that is sent by value is pickled with the current values of its globals and cells, a class with its
attributes and bases.
"""

from __future__ import annotations

import dis
import weakref
from functools import cached_property
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing._by_value.names import CachedFunction, is_by_value
from shmtensor.multiprocessing._by_value.namespaces import main_globals, reference, refers_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Snapshot"]

_NOTHING = object()
_global_names: weakref.WeakKeyDictionary[CodeType, set[str]] = weakref.WeakKeyDictionary()
_OF_GLOBALS = {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"}  # the globals that cloudpickle includes


class Snapshot:
    """The globals, cells and attributes of a function or class, and of those it refers to, at one time."""

    def __init__(self, root: Any) -> None:
        # Weak references only: a lambda with a tensor, for example, must not outlive its owner's reference.
        self._seen: list[tuple[weakref.ref[FunctionType], int | None, str, Callable[[], Any]]] = []
        self._versions: list[tuple[weakref.ref[FunctionType], str, int]] = []
        self._classes: list[tuple[weakref.ref[type], dict[str, Callable[[], Any]]]] = []
        visited: set[int] = set()
        todo = [root]
        while todo:
            thing = todo.pop()
            if id(thing) in visited:
                continue
            visited.add(id(thing))
            for function in _functions(thing):
                is_main = main_globals.are(function.__globals__)
                for index, name, value in _references(function):
                    self._seen.append((weakref.ref(function), index, name, reference(value)))
                    if index is None and is_main:
                        version = main_globals.version(name, value)
                        self._versions.append((weakref.ref(function), name, version))
                    if isinstance(value, (FunctionType, CachedFunction, type)) and is_by_value(value):
                        todo.append(value)
            if isinstance(thing, type):
                attributes = _attributes(thing)
                references = {name: reference(value) for name, value in attributes.items()}
                self._classes.append((weakref.ref(thing), references))
                related = (*thing.__bases__, *attributes.values())
                todo += [other for other in related if isinstance(other, type) and is_by_value(other)]

    def changes(self) -> list[tuple[Any, bool]]:
        """Return objects for which a name was rebound, each with True if the name is one of its closure."""
        found: list[tuple[Any, bool]] = []
        for find, index, name, value in self._seen:
            function = find()
            if function is None:
                continue  # deleted: the name by which it was found was rebound
            now = function.__globals__.get(name, _NOTHING) if index is None else _content(function, index)
            if not refers_to(value, now):
                found.append((function, index is not None))
        # The value may be the old one again, although another was sent in between.
        for find, name, version in self._versions:
            function = find()
            if function is not None and main_globals.latest(name) != version:
                found.append((function, False))
        for find_class, references in self._classes:
            thing = find_class()
            if thing is not None:
                now = _attributes(thing)
                same = now.keys() == references.keys()
                if not (same and all(refers_to(references[name], value) for name, value in now.items())):
                    found.append((thing, False))
        return found


def _functions(thing: Any) -> Iterator[FunctionType]:
    if not isinstance(thing, type):
        function = _without_cache(thing)
        if isinstance(function, FunctionType):
            yield function
        return
    for member in vars(thing).copy().values():
        parts = [member]
        if isinstance(member, (staticmethod, classmethod, property, cached_property)):
            parts = [getattr(member, name, None) for name in ("__func__", "fget", "fset", "fdel", "func")]
        for part in parts:
            function = _without_cache(part)
            if isinstance(function, FunctionType):
                yield function


def _without_cache(function: Any) -> Any:
    return function.__wrapped__ if isinstance(function, CachedFunction) else function


def _attributes(thing: type) -> dict[str, Any]:
    """Return attributes that a program may assign; not what Python and enums add, nor descriptors.

    Those would refer to the class, and a reference to them keep it alive.
    """
    return {
        name: value
        for name, value in vars(thing).copy().items()  # which another thread may change
        if not (name.startswith("_") and name.endswith("_"))
        and (isinstance(value, FunctionType) or not hasattr(type(value), "__get__"))
    }


def _references(function: FunctionType) -> Iterator[tuple[int | None, str, Any]]:
    """Yield names and values: of globals, and of cells with their index."""
    code = function.__code__
    names = _global_names.get(code)
    if names is None:
        names = _global_names[code] = set(_find_global_names(code))
    for name in names:
        if name in function.__globals__:
            yield None, name, function.__globals__[name]
    for index, name in enumerate(code.co_freevars):
        yield index, name, _content(function, index)


def _content(function: FunctionType, index: int) -> Any:
    try:
        return (function.__closure__ or ())[index].cell_contents
    except ValueError:
        return _NOTHING  # the cell is still empty


def _find_global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):  # `co_names` has the names of attributes too
        if instruction.opname in _OF_GLOBALS:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _find_global_names(constant)
