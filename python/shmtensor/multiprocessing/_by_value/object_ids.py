"""Ids of functions and classes that are sent by value: an object has the same id in all processes.

The process that assigned the id numbers the states in which it sends the object. A process that has an older
state fills its object again.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Any

from shmtensor.multiprocessing._by_value.contents import Reference, contents, reference, refers_to
from shmtensor.multiprocessing._by_value.namespaces import main_globals

ObjectId = tuple[bytes, int]


class _Known:
    __slots__ = ("contents", "object_id", "state")

    def __init__(self, object_id: ObjectId) -> None:
        self.object_id = object_id
        self.state = -1  # neither sent nor filled
        self.contents: dict[Any, Reference] = {}


class ObjectIds:
    """The ids known to this process. The objects are referred to weakly. Threads: any."""

    def __init__(self) -> None:
        self.reset_in_child()
        self._objects: weakref.WeakValueDictionary[ObjectId, Any] = weakref.WeakValueDictionary()
        self._known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()

    def of(self, obj: Any) -> tuple[ObjectId, int]:
        """Return the object's id and the number of its present state."""
        with self._lock:
            known = self._known.get(obj)
            if known is not None and known.object_id[0] != self._process:
                return known.object_id, known.state
            present = contents(obj, with_globals=not main_globals.belong_to(obj))
            if known is None:
                self.add((self._process, next(self._count)), obj)
                known = self._known[obj]
            last = known.contents
            same = last.keys() == present.keys() and all(refers_to(last[key], present[key]) for key in last)
            if known.state < 0 or not same:
                known.state = next(self._count)
                known.contents = {name: reference(value) for name, value in present.items()}
            return known.object_id, known.state

    def find(self, object_id: ObjectId) -> Any:
        """Return the object with an id, None if it is unknown."""
        return self._objects.get(object_id)

    def add(self, object_id: ObjectId, obj: Any) -> None:
        """Register an object in no state."""
        self._objects[object_id] = obj
        self._known[obj] = _Known(object_id)

    def to_be_filled(self, obj: Any, state: int) -> bool:
        """Return True once for each state that is newer than the object's: the caller fills the object."""
        known = self._known[obj]
        if state <= known.state:
            return False
        known.state = state
        return True

    def reset_in_child(self) -> None:
        """Start a new range of ids: those of a forked child must differ from its parent's."""
        self._lock = threading.RLock()  # a finalizer that runs while it is held may need it
        self.loading = threading.RLock()  # held from the creation of an object until it is filled
        self._process = os.urandom(8)
        self._count = itertools.count()


object_ids = ObjectIds()
