"""Pickling functions and classes whole, with cloudpickle, each with its number."""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from types import FunctionType
from typing import Any, ClassVar

from shmtensor.multiprocessing import _stdlib
from shmtensor.multiprocessing._globals import main_globals
from shmtensor.multiprocessing._numbers import Number, numbers

__all__ = ["dumps_whole", "loads_whole"]


def _pickler_class() -> Any:
    """Return a pickler of cloudpickle's, which is imported when it is needed first."""
    try:
        import cloudpickle
    except ImportError:
        msg = (
            "the start method 'server' needs cloudpickle for what is defined in __main__: "
            "pip install 'shmtensor[server]', or choose another start method"
        )
        raise ImportError(msg) from None

    class WholePickler(cloudpickle.Pickler):  # type: ignore[misc]
        # A pickler takes it from its class when it is made.
        dispatch_table: ClassVar = ChainMap(_stdlib.extra_reducers(), cloudpickle.Pickler.dispatch_table)

        def reducer_override(self, obj: Any) -> Any:
            reduced = super().reducer_override(obj)
            # Six parts: a function or class by value. It is made first and filled afterwards.
            if isinstance(reduced, tuple) and len(reduced) == 6:
                make, arguments, state, _, _, fill = reduced
                number, brought = numbers.of(obj), None
                if isinstance(obj, FunctionType) and main_globals.are(obj.__globals__):
                    arguments, state, brought = main_globals.take_apart(arguments, state)
                return _make, (number, make, arguments), (number, fill, state, brought), None, None, _fill
            return reduced

    return WholePickler


_whole_pickler: Any = None


def dumps_whole(obj: Any) -> bytes:
    """Pickle a function or class by value; tensors that it refers to travel as handles."""
    global _whole_pickler
    if _whole_pickler is None:
        _whole_pickler = _pickler_class()
    file = io.BytesIO()
    pickler = _whole_pickler(file)
    try:
        pickler.dump(obj)
    except Exception as error:
        msg = (
            f"the start method 'server' sends {obj.__module__}.{obj.__qualname__} by value, and cannot "
            f"pickle what it refers to: {type(error).__name__}: {error}; make that in the worker, or put the "
            "function into a module that workers can import, or choose another start method"
        )
        raise pickle.PicklingError(msg) from error
    return file.getvalue()


def loads_whole(content: bytes) -> Any:
    """Return the function or class; the one that is here already if its number is known."""
    with numbers.loading:
        return pickle.loads(content)


def _make(number: Number, make: Any, arguments: tuple[Any, ...]) -> Any:
    known = numbers.find(number)
    if known is None:
        known = make(*arguments)
        numbers.add(number, known)
    return known


def _fill(obj: Any, state: tuple[Number, Any, Any, Any]) -> None:
    number, fill, content, brought = state
    is_new = numbers.to_be_filled(number)
    if is_new:
        fill(obj, content)
    if brought is not None:
        main_globals.fill(obj.__globals__, is_new, *brought)
