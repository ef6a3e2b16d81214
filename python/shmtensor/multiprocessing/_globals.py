"""The globals of a main program where its functions are sent to: one dict for all that come from there.

So a function sees what another one has assigned, an initializer for instance. The sender's value of a name is
set once, by the first function that brings it, and again only if the sender has assigned another one since:
what was assigned here, or changed inside of the value, stays.

It is so in processes that descend from the sender. In others functions are as they came.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing._library import library

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Namespace", "namespaces", "reference", "refers_to"]

Home = tuple[bytes, int]  # the library's name of the process that sends, and which of its namespaces it is


class Namespace:
    """The globals of this process's main program, or what has come of another's."""

    def __init__(self, content: dict[str, Any], number: int) -> None:
        self.content = content
        self.number = number
        self.lock = threading.RLock()  # what ends because a value is replaced may send something
        self._taken: dict[str, int] = {}
        self._sent: dict[str, tuple[int, Callable[[], Any] | None]] = {}

    def version(self, name: str, value: Any) -> int:
        """Return the version of a name that is sent with this value, a new one if the last was another."""
        with self.lock:
            version, last = self._sent.get(name, (0, None))
            if last is None or not refers_to(last, value):
                version += 1
                self._sent[name] = version, reference(value)
            return version

    def latest(self, name: str) -> int:
        """Return the version that was sent last."""
        return self._sent[name][0]

    def take(self, values: dict[str, tuple[int, Any]]) -> None:
        """Set what is new here."""
        with self.lock:
            for name, (version, value) in values.items():
                if version > self._taken.get(name, 0):
                    self._taken[name] = version
                    self.content[name] = value

    def take_apart(self, arguments: Any, state: Any) -> tuple[Any, Any, Any]:
        """Return what cloudpickle makes and fills a function with, without globals, and these."""
        code, base, *rest = arguments
        plain, slots = state
        home = (library.name, self.number)
        values = {name: (self.version(name, value), value) for name, value in slots["__globals__"].items()}
        return (code, _Sent(home, base), *rest), (plain, {**slots, "__globals__": {}}), (home, values)


class Namespaces:
    """Those of this process. Threads: any."""

    def __init__(self) -> None:
        self._all: list[Namespace] = []  # at the place of their number
        self._by_home: dict[Home, Namespace] = {}
        self._lock = threading.RLock()

    def of(self, content: dict[str, Any]) -> Namespace | None:
        """Return the namespace with these globals; None if they are a module's that can be imported."""
        with self._lock:
            for namespace in self._all:
                if namespace.content is content:
                    return namespace
            return self._add(content) if content is vars(sys.modules["__main__"]) else None

    def arrived(self, home: Home, base: dict[str, Any]) -> dict[str, Any]:
        """Return the globals of a function that came; `base` is what cloudpickle would begin with."""
        if not library.descends_from(home[0]):
            return base
        with self._lock:
            if home not in self._by_home:
                self._by_home[home] = self._add(base)
            return self._by_home[home].content

    def fill(self, content: dict[str, Any], is_new: bool, home: Home, values: Any) -> None:
        """Take in what a function brought, which may have been here before."""
        namespace = self._by_home.get(home)
        if namespace is not None:
            namespace.take(values)
        elif is_new:
            content.update((name, value) for name, (_, value) in values.items())

    def start_anew(self) -> None:
        """After a fork: threads of the parent's may have had the locks."""
        self._lock = threading.RLock()
        for namespace in self._all:
            namespace.lock = threading.RLock()

    def _add(self, content: dict[str, Any]) -> Namespace:
        self._all.append(Namespace(content, len(self._all)))
        return self._all[-1]


class _Sent:
    """Pickles as the dict that the receiver has."""

    def __init__(self, home: Home, base: dict[str, Any]) -> None:
        self._arguments = home, base

    def __reduce__(self) -> Any:
        return _arrived, self._arguments


def _arrived(home: Home, base: dict[str, Any]) -> dict[str, Any]:
    return namespaces.arrived(home, base)


def reference(value: Any) -> Callable[[], Any]:
    """Refer to a value without keeping it, if it can be done."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def refers_to(reference: Callable[[], Any], value: Any) -> bool:
    """Is it this value? None may also be what is left of another one."""
    return reference() is value and (value is not None or not isinstance(reference, weakref.ref))


namespaces = Namespaces()
