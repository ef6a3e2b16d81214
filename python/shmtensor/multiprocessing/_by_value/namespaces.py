"""The globals of the main program in its workers: one dict for all functions that the program sends.

A function therefore sees what another one, such as an initializer, has assigned. The sender counts the values
that it has sent for each name; a worker sets a name only if the count is higher than that of its own value. A
value that a worker has assigned itself stays until the program assigns another value and sends it.

This applies to functions from a process that the worker descends from. Other functions keep the globals they
were sent with.
"""

from __future__ import annotations

import sys
import threading
import weakref
from multiprocessing import context
from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing._by_value.code_store import code_store

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main_globals", "reference", "refers_to"]

_ONLY_INHERITED = {"multiprocessing.synchronize", "multiprocessing.sharedctypes"}


class MainGlobals:
    """The main program's globals, in this process. Threads: any."""

    def __init__(self) -> None:
        self._globals: dict[str, Any] | None = None  # None except in workers
        self._sent: dict[str, tuple[int, Callable[[], Any]]] = {}
        self._counts: dict[tuple[bytes, str], int] = {}
        self._inherited: dict[str, Callable[[], Any]] = {}
        self.reset_in_child()

    def reset_in_child(self) -> None:
        """Replace the lock, which another thread of the parent may have held."""
        self._lock = threading.RLock()  # the finalizer of a replaced value may send something

    def become_worker(self) -> None:
        """Declare that the main program is another process."""
        self._globals = {}

    def are(self, content: dict[str, Any]) -> bool:
        """Return True if these are the main program's globals."""
        return content is (vars(sys.modules["__main__"]) if self._globals is None else self._globals)

    def version(self, name: str, value: Any) -> int:
        """Return the count for a name; it rises if the value differs from the last one that was sent."""
        with self._lock:
            count, last = self._sent.get(name, (0, None))
            if last is None or not refers_to(last, value):
                count += 1
                self._sent[name] = count, reference(value)
            return count

    def latest(self, name: str) -> int:
        """Return the count of the last value that was sent."""
        return self._sent[name][0]

    def split(self, arguments: Any, state: Any) -> tuple[Any, Any, Any]:
        """Split cloudpickle's arguments and state of a function from its globals."""
        code, base, *rest = arguments
        plain, slots = state
        values = {
            name: (self.version(name, value), value)
            for name, value in slots["__globals__"].items()
            if not (_is_only_inherited(value) and self._is_inherited(name, value))
        }
        sent_globals = code_store.name, values
        return (
            (code, _Globals(code_store.name, base), *rest),
            (plain, {**slots, "__globals__": {}}),
            sent_globals,
        )

    def _is_inherited(self, name: str, value: Any) -> bool:
        """Return True if workers were given the value of this name when they were started."""
        if context.get_spawning_popen() is not None:
            self._inherited[name] = reference(value)
            return False
        return name in self._inherited and refers_to(self._inherited[name], value)

    def received(self, origin: bytes, base: dict[str, Any]) -> dict[str, Any]:
        """Return the globals for a received function; `base` is what cloudpickle would start with."""
        if self._globals is None or not code_store.descends_from(origin):
            return base
        for name, value in base.items():
            self._globals.setdefault(name, value)
        return self._globals

    def fill(self, content: dict[str, Any], is_new: bool, origin: bytes, values: Any) -> None:
        """Assign the globals that were received with a function, which may be known already."""
        with self._lock:
            for name, (count, value) in values.items():
                if content is not self._globals:
                    if is_new:
                        content[name] = value
                elif count > self._counts.get((origin, name), 0):
                    self._counts[origin, name] = count
                    content[name] = value


class _Globals:
    """A placeholder that unpickles as the receiver's dict."""

    def __init__(self, origin: bytes, base: dict[str, Any]) -> None:
        self._arguments = origin, base

    def __reduce__(self) -> Any:
        return _receive, self._arguments


def _receive(origin: bytes, base: dict[str, Any]) -> dict[str, Any]:
    return main_globals.received(origin, base)


def _is_only_inherited(value: Any) -> bool:
    """Return True for locks and shared values of `multiprocessing`, which no queue sends."""
    kind = type(value)
    if type(kind).__module__ == "_ctypes":
        return "_wrapper" in vars(value)
    return any(base.__module__ in _ONLY_INHERITED for base in kind.__mro__)


def reference(value: Any) -> Callable[[], Any]:
    """Return a weak reference to a value if its type allows that, else a strong one."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def refers_to(reference: Callable[[], Any], value: Any) -> bool:
    """Return True if the reference is to this value. A dead weak reference returns None, too."""
    return reference() is value and (value is not None or not isinstance(reference, weakref.ref))


main_globals = MainGlobals()
