"""Sending by value what a worker of the server could not import: what `__main__` defines, lambdas, closures.

The reader decides. Messages for workers of the server go by value: arguments of its processes, its
context's queues, pipes and pools (`ByValue`). Those for workers of another start method go by name, as in the
standard library (`ByName`). Of other queues the reader is not known: a process that has itself started a
worker of the server, or is one, sends by value what it can (`activate`). A reader that has the main module
takes what it finds there by name, however it was sent.

What is found in `__main__` by its name is sent once to each worker and from then on named by its number:
it lies in the sender's library, which workers read. Other functions, which may be as short-lived as a lambda,
travel whole the first time; those whose globals or closures have changed travel whole from then on.
"""

from __future__ import annotations

import os
import pickle
import sys
import weakref
from multiprocessing import context
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import Any, NoReturn

from shmtensor.multiprocessing._globals import main_globals
from shmtensor.multiprocessing._library import Place, library
from shmtensor.multiprocessing._numbers import Number, numbers
from shmtensor.multiprocessing._snapshot import Snapshot
from shmtensor.multiprocessing._value_pickler import dumps_whole, loads_whole

__all__ = ["ByName", "ByValue", "activate", "become_worker", "library"]

_MAIN = {"__main__", "__mp_main__"}


class _Sent:
    """What is remembered of a function or class that was sent."""

    def __init__(self, snapshot: Snapshot | None, place: Place | None = None) -> None:
        self.snapshot = snapshot
        self.place = place
        self.has_changed = False
        self.reduced: Any = None  # what a pickler is told: it is the same every time


_sent: weakref.WeakKeyDictionary[Any, _Sent] = weakref.WeakKeyDictionary()
_publishes = True  # false where those who read what is sent do not have the library
_has_main = True
_kept: dict[Number, Any] = {}  # those that others will name by their number


def activate() -> None:
    """Send by value also where the reader is not known."""
    pickler: Any = ForkingPickler
    pickler.reducer_override = _reduce_for_anyone


def become_worker(files: dict[bytes, int]) -> None:
    """Be a process without the main module, that reads what the one that started it has published."""
    global _has_main
    _has_main = False
    main_globals.become_worker()
    library.take_over(files)
    activate()


def _after_fork() -> None:
    global _publishes
    _publishes = False
    numbers.start_anew()
    library.start_anew()
    main_globals.release_lock()
    _sent.clear()  # the values there are the parent's
    if _has_main and vars(ForkingPickler).get("reducer_override") is _reduce_for_anyone:
        del ForkingPickler.reducer_override  # this process has not started a worker


os.register_at_fork(after_in_child=_after_fork)


def is_by_value(obj: Any) -> bool:
    """Return True for a function or class that another process cannot import by its name."""
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if module is None or name is None:
        return False
    if module in _MAIN:
        return True
    found = _find(name, module)
    return found is not obj and (isinstance(obj, FunctionType) or "<locals>" in name)


def _concerns(obj: Any) -> bool:
    kind = type(obj)
    return (kind is FunctionType or issubclass(kind, type)) and is_by_value(obj)


class ByValue(ForkingPickler):
    """For messages that workers of the server read."""

    def reducer_override(self, obj: Any) -> Any:
        return _reduce(obj) if _concerns(obj) else NotImplemented


class ByName(ForkingPickler):
    """For messages that only workers of another start method read."""

    @property
    def reducer_override(self) -> Any:
        raise AttributeError  # so that pickle does not ask for each object


def _reduce_for_anyone(_pickler: Any, obj: Any) -> Any:
    if not _concerns(obj):
        return NotImplemented
    starting: Any = context.get_spawning_popen()
    if starting is not None:
        return _reduce(obj) if starting.method == "server" else NotImplemented
    try:
        return _reduce(obj)
    except Exception:
        if _name_in_main(obj) is None:
            raise  # it cannot go by name either
        return NotImplemented


def _reduce(obj: Any) -> Any:
    sent = _sent.get(obj)
    is_first = sent is None
    if sent is None:
        sent = _Sent(Snapshot(obj, is_by_value) if _publishes else None)
    elif sent.snapshot is not None:
        changes = sent.snapshot.changes()
        if changes:
            for function, is_closure in changes:
                if is_closure:
                    numbers.renew(function)  # a worker that has the function keeps its closure
            sent.snapshot, sent.place, sent.reduced = Snapshot(obj, is_by_value), None, None
            sent.has_changed = True
    if sent.reduced is None:
        name = _name_in_main(obj)
        if sent.place is None:
            content = dumps_whole(obj)
            _sent[obj] = sent
            if not _publishes or sent.has_changed or (is_first and name is None):
                return _whole, (*numbers.of(obj), name, content)
            sent.place = library.add(content)
        sent.reduced = _published, (*numbers.of(obj), name, *sent.place)
    return sent.reduced


def _find(name: str, module: str = "__main__") -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split(".") if "." in name else (name,):
        found = getattr(found, part, None)
    return found


def _name_in_main(obj: Any) -> str | None:
    """Return the name by which a process with the main module finds it, None if it does not."""
    name: str = obj.__qualname__
    if obj.__module__ not in _MAIN or "<" in name:
        return None
    return name if not _has_main or _find(name) is obj else None


def _is_here(number: Number, name: str | None) -> Any:
    known = numbers.find(number)
    return _find(name) if known is None and _has_main and name is not None else known


def _whole(process: bytes, count: int, name: str | None, content: bytes) -> Any:
    # A worker loads also what it has: the globals may be new.
    known = _is_here((process, count), name) if _has_main else None
    return loads_whole(content) if known is None else known


def _published(process: bytes, count: int, name: str | None, home: bytes, offset: int, size: int) -> Any:  # noqa: PLR0917
    number, place = (process, count), (home, offset, size)
    with numbers.loading:
        known = _is_here(number, name)
        if known is not None:
            return known
        content = library.read(place)
        if content is None:
            _tell_foreign(name)
        obj = loads_whole(content)
        _kept[number] = obj
        _sent[obj] = _Sent(None, place)
        return obj


def _tell_foreign(name: str | None) -> NoReturn:
    msg = (
        f"{name or 'a function'} of another program's __main__ was sent for workers of the start method "
        "'server', which this process is not; put it into a module that both import"
    )
    raise pickle.UnpicklingError(msg)
