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
from functools import cache
from types import CodeType
from typing import Any, ClassVar

from shmtensor._reducer_tables import FORKING, ArrayReducers
from shmtensor.multiprocessing._by_value.code_store import code_store
from shmtensor.multiprocessing._by_value.contents import contents, global_names
from shmtensor.multiprocessing._by_value.names import CachedFunction, is_by_value
from shmtensor.multiprocessing._by_value.namespaces import main_globals
from shmtensor.multiprocessing._by_value.object_ids import ObjectId, object_ids
from shmtensor.multiprocessing._by_value.reductions import (
    REDUCTIONS,
    fill_cached,
    make_cached,
    of_structure,
    parts_of_cached,
    with_file_name,
)


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


class Snapshot:
    """The states of all functions and classes in a pickle, and the counts of the main program's globals."""

    def __init__(self) -> None:
        self.states: list[tuple[weakref.ref[Any], int]] = []
        self.counts: dict[str, int] = {}

    def is_current(self) -> bool:
        """Return True if they would be pickled in the same way now."""
        objects = ((find(), state) for find, state in self.states)
        same = all(obj is None or object_ids.of(obj)[1] == state for obj, state in objects)
        return same and not main_globals.have_changed(self.counts)


@cache
def _pickler_class() -> Any:
    """Return a subclass of cloudpickle's pickler, which is imported when it is first needed."""
    import ctypes
    from multiprocessing.connection import Connection
    from multiprocessing.heap import Arena
    from socket import socket

    with_descriptor = (Connection, Arena, socket)
    cloudpickle = _cloudpickle()
    pickler: Any = cloudpickle.Pickler
    reduce_class = sys.modules[pickler.__module__]._dynamic_class_reduce

    class WholePickler(pickler):  # type: ignore[misc]
        # Read from the class when a pickler is created. What is pickled here is read several times, so arrays
        # among the arguments of a process are not copied into shared memory for one reader.
        dispatch_table: ClassVar = ChainMap(
            ArrayReducers(REDUCTIONS),
            {CodeType: with_file_name(pickler.dispatch_table[CodeType])},
            FORKING,
            cloudpickle.Pickler.dispatch_table,
        )

        has_descriptors = False

        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file)
            self.snapshot = Snapshot()

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, with_descriptor):
                self.has_descriptors = True
            # Types that ctypes makes, with names that cannot be imported.
            if isinstance(obj, type(ctypes.Array)):
                return operator.mul, (obj._type_, obj._length_)
            if isinstance(obj, type(ctypes.c_int)) and getattr(obj, "__ctype_le__", obj) is not obj:
                return getattr, (obj.__ctype_le__, "__ctype_be__")
            known = None
            if is_by_value(obj):
                check_equality(obj)
                known = object_ids.of(obj)  # before cloudpickle reads what the object contains
            if known is not None and type(obj) is CachedFunction:
                return self._by_id(obj, known, make_cached, fill_cached, parts_of_cached(obj))
            reduced = super().reducer_override(obj)
            if reduced is NotImplemented and known is not None:  # in `__mp_main__`, which workers lack
                reduced = reduce_class(obj) if isinstance(obj, type) else self._dynamic_function_reduce(obj)
            # Six parts: a function or class by value, which is created first and filled afterwards.
            if not isinstance(reduced, tuple) or len(reduced) != 6:
                return reduced
            make, arguments, state, _, _, fill = reduced
            if isinstance(obj, (type(ctypes.Structure), type(ctypes.Union))):
                arguments, state = of_structure(arguments, state)
            elif "__slots__" in vars(obj) and not issubclass(obj, (Enum, tuple)):
                arguments = _with_slots(arguments, obj)
            if isinstance(obj, type) and not issubclass(obj, Enum):
                state = (
                    {**contents(obj), **state[0]},
                    state[1],
                )  # cloudpickle omits values that a base has, too
            return self._by_id(obj, known or object_ids.of(obj), make, fill, (arguments, state))

        def _by_id(
            self, obj: Any, known: tuple[ObjectId, int], make: Any, fill: Any, parts: tuple[Any, Any]
        ) -> tuple[Any, ...]:
            object_id, number = known
            arguments, content = parts
            origin, values = None, None
            if main_globals.belong_to(obj):
                origin, slots = code_store.name, content[1]
                counts, values = main_globals.counted(global_names(obj.__code__), slots["__globals__"])
                self.snapshot.counts.update(counts)
                slots["__globals__"] = {}
            if origin is None or obj.__closure__ is not None:
                self.snapshot.states.append((weakref.ref(obj), number))
            created = object_id, make, arguments, origin
            return _create, created, (number, fill, content, origin, values), None, None, _fill

    return WholePickler


def _with_slots(arguments: tuple[Any, ...], kind: type) -> tuple[Any, ...]:
    """Return cloudpickle's arguments for a class with its slots, which cloudpickle leaves out.

    A tuple can have none, and `typing.NamedTuple` refuses the name.
    """
    metaclass, name, bases, content, *rest = arguments
    return metaclass, name, bases, {**content, "__slots__": vars(kind)["__slots__"]}, *rest


_sent_classes: weakref.WeakKeyDictionary[type, weakref.ref[type]] = weakref.WeakKeyDictionary()


def check_equality(obj: Any) -> None:
    """Raise `PicklingError` for a class that equals another one: cloudpickle would send either for both."""
    kind: Any = type(obj)
    if not isinstance(obj, type) or (kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__):
        return
    if _sent_classes.setdefault(obj, weakref.ref(obj))() is not obj:
        msg = (
            f"the start method 'server' cannot send the class {obj.__module__}.{obj.__qualname__} by value: "
            f"by its metaclass {kind.__qualname__} it equals another class that was sent; move it to a "
            "module that workers can import, or choose another start method"
        )
        raise pickle.PicklingError(msg)


def dumps_whole(obj: Any) -> tuple[bytes, Snapshot, bool]:
    """Pickle a function or class by value; tensors that it refers to travel as handles.

    Also return what it refers to, and True if that includes descriptors, which one reader gets.
    """
    file = io.BytesIO()
    pickler = _pickler_class()(file)
    try:
        pickler.dump(obj)
    except Exception as error:
        msg = (
            f"the start method 'server' sends {obj.__module__}.{obj.__qualname__} by value, but cannot "
            f"pickle what it refers to: {type(error).__name__}: {error}; create that in the worker, or "
            "move the function to a module that workers can import, or choose another start method"
        )
        raise pickle.PicklingError(msg) from error
    return file.getvalue(), pickler.snapshot, pickler.has_descriptors


def loads_whole(content: bytes) -> Any:
    """Return the function or class; if its id is known, the object that is here already."""
    with object_ids.loading:
        return pickle.loads(content)


def _create(object_id: ObjectId, make: Any, arguments: tuple[Any, ...], origin: bytes | None) -> Any:
    known = object_ids.find(object_id)
    if known is None:
        if origin is not None:
            code, base, *rest = arguments
            arguments = code, main_globals.received(origin, base), *rest
        known = make(*arguments)
        object_ids.add(object_id, known)
    return known


def _fill(obj: Any, state: tuple[int, Any, Any, Any, Any]) -> None:
    number, fill, content, origin, values = state
    # The fields of a structure of ctypes are final.
    is_new = object_ids.to_be_filled(obj, number) and "_fields_" not in vars(obj)
    if is_new:
        fill(obj, content)
    if origin is not None:
        main_globals.fill(obj.__globals__, is_new, origin, values)
