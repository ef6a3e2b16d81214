"""The globals of the main program where its functions are sent to: a worker has one dict for all of them.

So a function sees what another one has assigned, an initializer for instance. The sender counts the values
that it has sent of each name; a worker sets a name only if the count is higher than the one that it has.
What a worker has assigned itself thus stays until the program assigns the name another value and sends that.

It is so where functions come from a process that the worker descends from. Elsewhere they are as they came.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing._library import library

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main_globals", "reference", "refers_to"]


class MainGlobals:
    """Those of this process. Threads: any."""

    def __init__(self) -> None:
        self._received: dict[str, Any] | None = None  # only workers have it
        self._sent: dict[str, tuple[int, Callable[[], Any]]] = {}
        self._taken: dict[tuple[bytes, str], int] = {}
        self.release_lock()

    def release_lock(self) -> None:
        """After a fork: a thread of the parent's may have had it."""
        self._lock = threading.RLock()  # what ends because a value is replaced may send something

    def become_worker(self) -> None:
        """From now on the main program is another process's."""
        self._received = {}

    def are(self, content: dict[str, Any]) -> bool:
        """Return True if these are the globals of the main program."""
        return content is (vars(sys.modules["__main__"]) if self._received is None else self._received)

    def version(self, name: str, value: Any) -> int:
        """Return the count for a name that is sent with this value, a new one if the last was another."""
        with self._lock:
            count, last = self._sent.get(name, (0, None))
            if last is None or not refers_to(last, value):
                count += 1
                self._sent[name] = count, reference(value)
            return count

    def latest(self, name: str) -> int:
        """Return the count of the value that was sent last."""
        return self._sent[name][0]

    def take_apart(self, arguments: Any, state: Any) -> tuple[Any, Any, Any]:
        """Return what cloudpickle makes and fills a function with, without globals, and these."""
        code, base, *rest = arguments
        plain, slots = state
        values = {name: (self.version(name, value), value) for name, value in slots["__globals__"].items()}
        brought = library.name, values
        return (code, _Globals(library.name, base), *rest), (plain, {**slots, "__globals__": {}}), brought

    def arrived(self, home: bytes, base: dict[str, Any]) -> dict[str, Any]:
        """Return the globals of a function that came; `base` is what cloudpickle would begin with."""
        if self._received is None or not library.descends_from(home):
            return base
        for name, value in base.items():
            self._received.setdefault(name, value)
        return self._received

    def fill(self, content: dict[str, Any], is_new: bool, home: bytes, values: Any) -> None:
        """Take in what a function brought, which may have been here before."""
        with self._lock:
            for name, (count, value) in values.items():
                if content is not self._received:
                    if is_new:
                        content[name] = value
                elif count > self._taken.get((home, name), 0):
                    self._taken[home, name] = count
                    content[name] = value


class _Globals:
    """Pickles as the dict that the receiver has."""

    def __init__(self, home: bytes, base: dict[str, Any]) -> None:
        self._arguments = home, base

    def __reduce__(self) -> Any:
        return _arrived, self._arguments


def _arrived(home: bytes, base: dict[str, Any]) -> dict[str, Any]:
    return main_globals.arrived(home, base)


def reference(value: Any) -> Callable[[], Any]:
    """Refer to a value without keeping it, if it can be done."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def refers_to(reference: Callable[[], Any], value: Any) -> bool:
    """Is it this value? None may also be what is left of another one."""
    return reference() is value and (value is not None or not isinstance(reference, weakref.ref))


main_globals = MainGlobals()
