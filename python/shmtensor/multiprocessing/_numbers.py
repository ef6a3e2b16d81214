"""Numbers of functions and classes that travel by value: the same object has the same number everywhere."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Any

__all__ = ["Number", "numbers"]

Number = tuple[bytes, int]


class Numbers:
    """Those known to this process. It does not keep the objects alive."""

    def __init__(self) -> None:
        self.start_anew()
        self._objects: weakref.WeakValueDictionary[Number, Any] = weakref.WeakValueDictionary()
        # By identity: a metaclass may define equality.
        self._numbers: dict[int, tuple[Number, weakref.ref[Any]]] = {}
        self._unfilled: set[Number] = set()

    def of(self, obj: Any) -> Number:
        """Return the object's number, a new one if it has none."""
        with self._lock:
            known = self._numbers.get(id(obj))
            if known is not None and known[1]() is obj:
                return known[0]
            number = (self._process, next(self._count))
            self._enter(number, obj)
            return number

    def renew(self, obj: Any) -> None:
        """Give an object another number: with this one it is not the same elsewhere. Here it has both."""
        with self._lock:
            self._enter((self._process, next(self._count)), obj)

    def find(self, number: Number) -> Any:
        """Return the object, None if it is not here."""
        return self._objects.get(number)

    def add(self, number: Number, obj: Any) -> None:
        """Enter an object that came from elsewhere, and is not filled yet."""
        self._enter(number, obj)
        self._unfilled.add(number)

    def to_be_filled(self, number: Number) -> bool:
        """Ask once whether an object has still to be filled."""
        if number in self._unfilled:
            self._unfilled.remove(number)
            return True
        return False

    def _enter(self, number: Number, obj: Any) -> None:
        key = id(obj)
        self._objects[number] = obj
        self._numbers[key] = number, weakref.ref(obj, lambda _: self._forget(key, number))

    def _forget(self, key: int, number: Number) -> None:
        known = self._numbers.get(key)
        if known is not None and known[0] == number:
            del self._numbers[key]

    def start_anew(self) -> None:
        """After a fork: new numbers shall not be the parent's."""
        self._lock = threading.RLock()  # what the garbage collector ends while it is held may ask too
        self.loading = threading.RLock()  # held from before an object is entered until it is filled
        self._process = os.urandom(8)
        self._count = itertools.count()


numbers = Numbers()
