"""What a function refers to outside of itself, so that it can be told when that was changed.

A function that is sent by value takes along what its globals and cells refer to at that time.
"""

from __future__ import annotations

import dis
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Snapshot"]

_NOTHING = object()
_OF_GLOBALS = {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"}  # what cloudpickle takes along by


class Snapshot:
    """The globals and cells of a function or class, and of those it refers to, at one time."""

    def __init__(self, root: Any, is_by_value: Any) -> None:
        self._seen: list[tuple[FunctionType, int | None, str, Any]] = []
        visited: set[int] = set()
        todo = [root]
        while todo:
            thing = todo.pop()
            if id(thing) in visited:
                continue
            visited.add(id(thing))
            for function in _functions(thing):
                for index, name, value in _references(function):
                    self._seen.append((function, index, name, value))
                    if isinstance(value, (FunctionType, type)) and is_by_value(value):
                        todo.append(value)

    def changed(self) -> str | None:
        """Return a name that refers to something else now, None if there is none."""
        for function, index, name, value in self._seen:
            now = function.__globals__.get(name, _NOTHING) if index is None else _content(function, index)
            if now is not value:
                return name
        return None


def _functions(thing: Any) -> Iterator[FunctionType]:
    if isinstance(thing, FunctionType):
        yield thing
    else:
        for member in vars(thing).values():
            function = getattr(member, "__func__", member)  # of static and class methods
            if isinstance(function, FunctionType):
                yield function


def _references(function: FunctionType) -> Iterator[tuple[int | None, str, Any]]:
    """Yield names and values: of globals, and of cells with their index."""
    for name in set(_global_names(function.__code__)):
        if name in function.__globals__:
            yield None, name, function.__globals__[name]
    for index, name in enumerate(function.__code__.co_freevars):
        yield index, name, _content(function, index)


def _content(function: FunctionType, index: int) -> Any:
    try:
        return (function.__closure__ or ())[index].cell_contents
    except ValueError:
        return _NOTHING  # not yet filled


def _global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):  # `co_names` has the names of attributes too
        if instruction.opname in _OF_GLOBALS:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
