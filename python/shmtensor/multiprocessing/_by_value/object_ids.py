"""Ids of functions and classes that are sent by value: an object has the same id in all processes."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Any

__all__ = ["ObjectId", "ObjectIds", "object_ids"]

ObjectId = tuple[bytes, int]


class ObjectIds:
    """The ids known to this process. The objects are referred to weakly. Threads: any."""

    def __init__(self) -> None:
        self.reset_in_child()
        self._objects: weakref.WeakValueDictionary[ObjectId, Any] = weakref.WeakValueDictionary()
        # By identity: a metaclass may define equality.
        self._ids: dict[int, tuple[ObjectId, weakref.ref[Any]]] = {}
        self._unfilled: set[ObjectId] = set()

    def of(self, obj: Any) -> ObjectId:
        """Return the object's id, a new one if it has none."""
        with self._lock:
            known = self._ids.get(id(obj))
            if known is not None and known[1]() is obj:
                return known[0]
            object_id = (self._process, next(self._count))
            self._register(object_id, obj)
            return object_id

    def renew(self, obj: Any) -> None:
        """Assign a new id: under the old one, other processes keep an older state. Here both are valid."""
        with self._lock:
            self._register((self._process, next(self._count)), obj)

    def find(self, object_id: ObjectId) -> Any:
        """Return the object with an id, None if it is unknown."""
        return self._objects.get(object_id)

    def add(self, object_id: ObjectId, obj: Any) -> None:
        """Register an object that was received and is not filled yet."""
        self._register(object_id, obj)
        self._unfilled.add(object_id)

    def to_be_filled(self, object_id: ObjectId) -> bool:
        """Return True once for each added object: the caller fills it."""
        if object_id in self._unfilled:
            self._unfilled.remove(object_id)
            return True
        return False

    def _register(self, object_id: ObjectId, obj: Any) -> None:
        key = id(obj)
        self._objects[object_id] = obj
        self._ids[key] = object_id, weakref.ref(obj, lambda _: self._forget(key, object_id))

    def _forget(self, key: int, object_id: ObjectId) -> None:
        known = self._ids.get(key)
        if known is not None and known[0] == object_id:
            del self._ids[key]

    def reset_in_child(self) -> None:
        """Start a new range of ids: those of a forked child must differ from its parent's."""
        self._lock = threading.RLock()  # a finalizer that runs while it is held may need it
        self.loading = threading.RLock()  # held from the creation of an object until it is filled
        self._process = os.urandom(8)
        self._count = itertools.count()


object_ids = ObjectIds()
