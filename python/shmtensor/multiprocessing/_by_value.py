"""Sending by value what a worker could not import: what is defined in `__main__`, lambdas, closures.

What can be found in `__main__` by its name is sent once to each worker and from then on named by its number:
it lies in the sender's library, which workers read. Other functions, which may be as short-lived as a lambda,
travel whole the first time.

A pickler of the standard library asks `reducer_override` before everything else. `activate` sets it for the
class that all queues, pipes and pools use; until then nothing is changed.
"""

from __future__ import annotations

import os
import pickle
import sys
import weakref
from multiprocessing import context
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import Any

from shmtensor.multiprocessing._globals import namespaces
from shmtensor.multiprocessing._library import Place, library
from shmtensor.multiprocessing._numbers import Number, numbers
from shmtensor.multiprocessing._snapshot import Snapshot
from shmtensor.multiprocessing._value_pickler import dumps_whole, loads_whole

__all__ = ["activate", "become_worker", "library"]

_MAIN = {"__main__", "__mp_main__"}


class _Sent:
    """What is remembered of a function or class that was sent."""

    def __init__(self, snapshot: Snapshot | None, place: Place | None) -> None:
        self.snapshot = snapshot
        self.place = place
        self.reduced: Any = None  # what a pickler is told: it is the same every time


_sent: weakref.WeakKeyDictionary[Any, _Sent] = weakref.WeakKeyDictionary()
_publishes = True  # false where those who read what is sent do not have the library
_kept: dict[Number, Any] = {}  # those that others will name by their number


def activate() -> None:
    """Send by value from now on, in this process and its forked children."""
    pickler: Any = ForkingPickler
    if pickler.__dict__.get("reducer_override") is not _reducer_override:
        pickler.reducer_override = _reducer_override
        os.register_at_fork(after_in_child=_after_fork)


def become_worker(files: dict[bytes, int]) -> None:
    """Read what the process that started this worker has published."""
    library.take_over(files)


def _after_fork() -> None:
    global _publishes
    _publishes = False
    numbers.start_anew()
    library.start_anew()
    namespaces.start_anew()
    for sent in _sent.values():
        if sent.place is not None and sent.snapshot is not None:
            sent.snapshot = None  # it is the parent's: what changes here does not matter there


def is_by_value(obj: Any) -> bool:
    """Is it a function or class that another process cannot import by its name?"""
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if module is None or name is None:
        return False
    if module in _MAIN:
        return True
    found: Any = sys.modules.get(module)
    for part in name.split(".") if "." in name else (name,):
        found = getattr(found, part, None)
    return found is not obj and (isinstance(obj, FunctionType) or "<locals>" in name)


def _reducer_override(_pickler: Any, obj: Any) -> Any:
    kind = type(obj)
    if not (kind is FunctionType or issubclass(kind, type)) or not is_by_value(obj):
        return NotImplemented
    starting: Any = context.get_spawning_popen()
    if starting is not None and starting.method != "server":
        return NotImplemented  # a worker of another method has the main module, or says what is wrong
    return _reduce(obj)


def _reduce(obj: Any) -> Any:
    sent = _sent.get(obj)
    if sent is None:
        snapshot = Snapshot(obj, is_by_value)
        content = dumps_whole(obj)
        lasting = _publishes and _found_in_main(obj)
        _sent[obj] = _Sent(snapshot, library.add(content) if lasting else None)
        if not lasting:
            return loads_whole, (content,)
        sent = _sent[obj]
    elif sent.snapshot is not None:
        changed = sent.snapshot.changed()
        if changed is not None:
            _tell_changed(obj, changed)
    if sent.place is None:
        if not _publishes:
            return loads_whole, (dumps_whole(obj),)
        sent.place = library.add(dumps_whole(obj))
    if sent.reduced is None:
        sent.reduced = _by_number, (*numbers.of(obj), *sent.place, obj.__qualname__)
    return sent.reduced


def _found_in_main(obj: Any) -> bool:
    found: Any = sys.modules.get("__main__")
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is obj


def _tell_changed(obj: Any, name: str) -> None:
    msg = (
        f"{obj.__module__}.{obj.__qualname__} refers to {name!r}, which was changed after workers of the "
        "start method 'server' took the function with the value of that time; pass it as an argument, or "
        "define the function anew, or choose another start method"
    )
    raise pickle.PicklingError(msg)


def _by_number(process: bytes, count: int, home: bytes, offset: int, size: int, name: str) -> Any:  # noqa: PLR0917
    number, place = (process, count), (home, offset, size)
    with numbers.loading:
        known = numbers.find(number)
        if known is not None:
            return known
        content = library.read(place)
        if content is None:
            return _find_by_name(name)
        obj = loads_whole(content)
        _kept[number] = obj
        _sent[obj] = _Sent(None, place)
        return obj


def _find_by_name(name: str) -> Any:
    """In a process that did not descend from the sender, but perhaps runs the same program."""
    found: Any = sys.modules.get("__main__")
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        msg = (
            f"{name} of another program's __main__ was sent for workers of the start method 'server', and "
            "this process is none of them; put it into a module that both import"
        )
        raise pickle.UnpicklingError(msg)
    return found
