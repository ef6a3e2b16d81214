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
from multiprocessing import context
from types import FunctionType
from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing._by_value.code_store import code_store
from shmtensor.multiprocessing._by_value.contents import NOTHING, Reference, reference, refers_to

if TYPE_CHECKING:
    from collections.abc import Iterable

Values = dict[str, tuple[int, Any]]

_ONLY_INHERITED = {"multiprocessing.synchronize", "multiprocessing.sharedctypes"}


class MainGlobals:
    """The main program's globals, in this process. Threads: any."""

    def __init__(self) -> None:
        self._globals: dict[str, Any] | None = None  # None except in workers
        self._sent: dict[str, tuple[int, Reference]] = {}  # the count and the last value
        self._inherited: dict[str, int] = {}  # the count of the value with which a process was started
        self._received: dict[tuple[bytes, str], int] = {}
        self.reset_in_child()

    def reset_in_child(self) -> None:
        """Replace the lock, which another thread of the parent may have held."""
        self._lock = threading.RLock()  # the finalizer of a replaced value may send something

    def become_worker(self) -> None:
        """Declare that the main program is another process."""
        self._globals = {}

    def belong_to(self, obj: Any) -> bool:
        """Return True for a function of the main program."""
        return isinstance(obj, FunctionType) and obj.__globals__ is self._present()

    def have_changed(self, counts: dict[str, int]) -> bool:
        """Return True if a name has another value than it was sent with."""
        present = self._present()
        for name, count in counts.items():
            last_count, last = self._sent[name]
            if last_count != count or not refers_to(last, present.get(name, NOTHING)):
                return True
        return False

    def counted(self, names: Iterable[str], values: dict[str, Any]) -> tuple[dict[str, int], Values]:
        """Return the counts of all these names, and the values that are to be sent with their counts."""
        counts = {name: self._count(name, values.get(name, NOTHING)) for name in {*names, *values}}
        starting = context.get_spawning_popen() is not None
        sent = {}
        for name, value in values.items():
            if _is_only_inherited(value):
                if starting:
                    self._inherited[name] = counts[name]
                elif self._inherited.get(name) == counts[name]:
                    continue  # workers were given it when they were started
            sent[name] = counts[name], value
        return counts, sent

    def received(self, origin: bytes, base: dict[str, Any]) -> dict[str, Any]:
        """Return the globals for a received function; `base` is what cloudpickle would start with."""
        if self._globals is None or not code_store.descends_from(origin):
            return base
        self._globals.update(base | self._globals)
        return self._globals

    def fill(self, content: dict[str, Any], is_new: bool, origin: bytes, values: Values) -> None:
        """Assign the globals that were received with a function, which may be known already."""
        with self._lock:
            for name, (count, value) in values.items():
                if content is not self._globals:
                    if is_new:
                        content[name] = value
                elif count > self._received.get((origin, name), 0):
                    self._received[origin, name] = count
                    content[name] = value

    def _present(self) -> dict[str, Any]:
        return vars(sys.modules["__main__"]) if self._globals is None else self._globals

    def _count(self, name: str, value: Any) -> int:
        """Return the count for a name; it rises if the value differs from the last one that was sent."""
        with self._lock:
            count, last = self._sent.get(name, (0, lambda: self))
            if not refers_to(last, value):
                count += 1
                self._sent[name] = count, reference(value)
            return count


def _is_only_inherited(value: Any) -> bool:
    """Return True for locks and shared values of `multiprocessing`, which no queue sends."""
    kind = type(value)
    if type(kind).__module__ == "_ctypes":
        return "_wrapper" in vars(value)
    return any(base.__module__ in _ONLY_INHERITED for base in kind.__mro__)


main_globals = MainGlobals()
