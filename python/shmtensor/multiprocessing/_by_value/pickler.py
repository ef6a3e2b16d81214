"""Pickling functions and classes completely, with cloudpickle, each with its id."""

from __future__ import annotations

import importlib
import io
import operator
import pickle
import sys
import weakref
from collections import ChainMap
from contextlib import suppress
from enum import Enum
from types import FunctionType
from typing import Any, ClassVar

from shmtensor._reducer_tables import FORKING, ArrayReducers
from shmtensor.multiprocessing._by_value.names import CachedFunction, is_by_value
from shmtensor.multiprocessing._by_value.namespaces import main_globals
from shmtensor.multiprocessing._by_value.object_ids import ObjectId, object_ids
from shmtensor.multiprocessing._by_value.reductions import (
    REDUCTIONS,
    fill_cached,
    make_cached,
    of_structure,
    parts_of_cached,
)

__all__ = ["check_equality", "dumps_whole", "loads_whole"]


def _cloudpickle() -> Any:
    """Return the package; without it, the copy that joblib has before version 1.6."""
    names = ["cloudpickle", *(["joblib.externals.cloudpickle"] if "joblib" in sys.modules else [])]
    for name in names:
        with suppress(ImportError):
            return importlib.import_module(name)
    msg = (
        "the start method 'server' needs cloudpickle to send definitions in __main__: "
        "pip install cloudpickle, or choose another start method"
    )
    raise ImportError(msg)


def _pickler_class() -> Any:
    """Return a subclass of cloudpickle's pickler, which is imported when it is first needed."""
    import ctypes
    from multiprocessing.connection import Connection
    from multiprocessing.heap import Arena
    from socket import socket

    with_descriptor = (Connection, Arena, socket)
    cloudpickle = _cloudpickle()
    pickler: Any = cloudpickle.Pickler

    class WholePickler(pickler):  # type: ignore[misc]
        # Read from the class when a pickler is created. What is pickled here is read several times, so arrays
        # among the arguments of a process are not copied into shared memory for one reader.
        dispatch_table: ClassVar = ChainMap(
            ArrayReducers(REDUCTIONS),
            FORKING,
            cloudpickle.Pickler.dispatch_table,
        )

        has_descriptors = False

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, with_descriptor):
                self.has_descriptors = True
            # Types that ctypes makes, with names that cannot be imported.
            if isinstance(obj, type(ctypes.Array)):
                return operator.mul, (obj._type_, obj._length_)
            if isinstance(obj, type(ctypes.c_int)) and getattr(obj, "__ctype_le__", obj) is not obj:
                return getattr, (obj.__ctype_le__, "__ctype_be__")
            if type(obj) is CachedFunction and is_by_value(obj):
                arguments, state = parts_of_cached(obj)
                return _by_id(object_ids.of(obj), make_cached, arguments, fill_cached, state)
            reduced = super().reducer_override(obj)
            # Six parts: a function or class by value, which is created first and filled afterwards.
            if isinstance(reduced, tuple) and len(reduced) == 6:
                make, arguments, state, _, _, fill = reduced
                check_equality(obj)
                object_id, sent_globals = object_ids.of(obj), None
                if isinstance(obj, FunctionType) and main_globals.are(obj.__globals__):
                    arguments, state, sent_globals = main_globals.split(arguments, state)
                elif isinstance(obj, (type(ctypes.Structure), type(ctypes.Union))):
                    arguments, state = of_structure(arguments, state)
                elif "__slots__" in vars(obj) and not issubclass(obj, (Enum, tuple)):
                    arguments = _with_slots(arguments, obj)
                return _by_id(object_id, make, arguments, fill, state, sent_globals)
            return reduced

    return WholePickler


def _by_id(  # noqa: PLR0917
    object_id: ObjectId, make: Any, arguments: Any, fill: Any, state: Any, sent_globals: Any = None
) -> tuple[Any, ...]:
    return _create, (object_id, make, arguments), (object_id, fill, state, sent_globals), None, None, _fill


def _with_slots(arguments: tuple[Any, ...], kind: type) -> tuple[Any, ...]:
    """Return cloudpickle's arguments for a class with its slots, which cloudpickle leaves out.

    A tuple can have none, and `typing.NamedTuple` refuses the name.
    """
    metaclass, name, bases, content, *rest = arguments
    return metaclass, name, bases, {**content, "__slots__": vars(kind)["__slots__"]}, *rest


_with_own_equality: list[weakref.ref[type]] = []  # classes that were sent


def check_equality(obj: Any) -> None:
    """Raise `PicklingError` for a class that equals another one: cloudpickle would send either for both."""
    kind: Any = type(obj)
    if not isinstance(obj, type) or (kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__):
        return
    others = [other for other in (find() for find in _with_own_equality) if other is not None]
    if any(other is obj for other in others):
        return
    if any(other == obj for other in others):
        msg = (
            f"the start method 'server' cannot send the class {obj.__module__}.{obj.__qualname__} by value: "
            f"by its metaclass {kind.__qualname__} it equals another class that was sent; move it to a "
            "module that workers can import, or choose another start method"
        )
        raise pickle.PicklingError(msg)
    _with_own_equality[:] = [weakref.ref(other) for other in (*others, obj)]


_whole_pickler: Any = None


def dumps_whole(obj: Any) -> tuple[bytes, bool]:
    """Pickle a function or class by value; tensors that it refers to travel as handles.

    Also return True if it refers to descriptors, which one reader gets.
    """
    global _whole_pickler
    if _whole_pickler is None:
        _whole_pickler = _pickler_class()
    file = io.BytesIO()
    pickler = _whole_pickler(file)
    try:
        pickler.dump(obj)
    except Exception as error:
        msg = (
            f"the start method 'server' sends {obj.__module__}.{obj.__qualname__} by value, but cannot "
            f"pickle what it refers to: {type(error).__name__}: {error}; create that in the worker, or "
            "move the function to a module that workers can import, or choose another start method"
        )
        raise pickle.PicklingError(msg) from error
    return file.getvalue(), pickler.has_descriptors


def loads_whole(content: bytes) -> Any:
    """Return the function or class; if its id is known, the object that is here already."""
    with object_ids.loading:
        return pickle.loads(content)


def _create(object_id: ObjectId, make: Any, arguments: tuple[Any, ...]) -> Any:
    known = object_ids.find(object_id)
    if known is None:
        known = make(*arguments)
        object_ids.add(object_id, known)
    return known


def _fill(obj: Any, state: tuple[ObjectId, Any, Any, Any]) -> None:
    object_id, fill, content, sent_globals = state
    is_new = object_ids.to_be_filled(object_id)
    if is_new:
        fill(obj, content)
    if sent_globals is not None:
        main_globals.fill(obj.__globals__, is_new, *sent_globals)
