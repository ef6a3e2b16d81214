"""The pickler hook that sends by value what a worker of the start method ``"server"`` cannot import.

That is what `__main__` defines, lambdas and closures. The reader of a message decides. Messages for workers
of the server are sent by value: arguments of processes, queues, pipes and pools of its context. Messages for
workers of another start method are sent by name, as in the standard library (`ByNamePickler`). For other
queues the reader is unknown: a process that has itself started a worker of the server, or is one, sends by
value what it can (`activate`). A reader that has the main module always uses what it finds there by name.

What `__main__` contains under its name is sent once to each worker, through the code store, and then referred
to by its id. Other functions, which may be as short-lived as a lambda, are sent completely the first time.
The store and its readers keep what was sent. So of a definition that runs again and again, such as a lambda
in a loop, small functions after the first hundreds are sent completely each time, which costs little.
What the program has changed is sent completely from then on, and functions that refer to
tensors or descriptors each time: a handle has one reader, and the code store has many.
"""

from __future__ import annotations

import pickle
import weakref
from collections import Counter
from multiprocessing import context
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, NoReturn

import shmtensor._core as _core
from shmtensor._fork import after_fork_in_child
from shmtensor._pickling import MessagePickler, dumps_by
from shmtensor.multiprocessing._by_value.code_store import code_store
from shmtensor.multiprocessing._by_value.names import MAIN, find, is_by_value
from shmtensor.multiprocessing._by_value.namespaces import main_globals
from shmtensor.multiprocessing._by_value.object_ids import ObjectId, object_ids
from shmtensor.multiprocessing._by_value.pickler import Snapshot, check_equality, dumps_whole, loads_whole


class _Sent(NamedTuple):
    """The record of a function or class that was sent.

    A record is replaced, never changed: in any thread, what it refers to is at least as new as its snapshot.
    """

    snapshot: Snapshot | None  # None: it is not checked
    reduced: Any = None  # the result for the pickler, until something changes
    is_complete: bool = False  # in each message


_SMALL = 1 << 16  # bytes of a pickle
_MOST_SMALL = 500  # small pickles in the code store, of one definition
_small: Counter[str] = Counter()  # their numbers, by qualified name
_sent: weakref.WeakKeyDictionary[Any, _Sent] = weakref.WeakKeyDictionary()
_publishes = True  # False in processes whose readers do not have their code store
_has_main = True
_kept: dict[ObjectId, Any] = {}  # objects that other processes will refer to by their id


def activate() -> None:
    """Send by value also if the reader is unknown."""
    picklers: tuple[Any, ...] = ForkingPickler, MessagePickler
    for pickler in picklers:
        pickler.reducer_override = _reduce_for_any_reader


def become_worker(files: dict[bytes, int]) -> None:
    """Make this a process without the main module, that reads the code stores of its ancestors."""
    global _has_main
    _has_main = False
    main_globals.become_worker()
    code_store.take_over(files)
    activate()


@after_fork_in_child
def _after_fork() -> None:
    global _publishes
    _publishes = False
    object_ids.reset_in_child()
    code_store.reset_in_child()
    main_globals.reset_in_child()
    _sent.clear()  # these values are the parent's
    if _has_main and vars(ForkingPickler).get("reducer_override") is _reduce_for_any_reader:
        del ForkingPickler.reducer_override  # this process has not started a worker
        del MessagePickler.reducer_override


class ByValuePickler(MessagePickler):
    """The pickler of messages for workers of the server."""

    def reducer_override(self, obj: Any) -> Any:
        """Reduce functions and classes that a worker cannot import."""
        return _reduce(obj) if is_by_value(obj) else NotImplemented


dumps_by_value = dumps_by(ByValuePickler)  # for workers of the server


def _reduce_for_any_reader(_pickler: Any, obj: Any) -> Any:
    if not is_by_value(obj):
        return NotImplemented
    starting: Any = context.get_spawning_popen()
    if starting is not None:
        return _reduce(obj) if starting.method == "server" else NotImplemented
    try:
        return _reduce(obj)
    except Exception:
        if _name_in_main(obj) is None:
            raise  # it cannot be sent by name either
        return NotImplemented


def _reduce(obj: Any) -> Any:
    check_equality(obj)
    sent = _sent.get(obj)
    has_changed = sent is not None and sent.snapshot is not None and not sent.snapshot.is_current()
    if sent is not None and sent.reduced is not None and not has_changed:
        return sent.reduced
    name = _name_in_main(obj)
    is_complete = has_changed or not _publishes or (sent is not None and sent.is_complete)
    if not is_complete and (sent is not None or name is not None):
        # Of its own, not that of the message for which the object is pickled; its end cancels the tickets.
        with _core.SendScope() as message:
            content, snapshot, has_descriptors = dumps_whole(obj)
        is_small = len(content) < _SMALL
        is_one_of_many = is_small and _small[obj.__qualname__] >= _MOST_SMALL
        is_complete = has_descriptors or bool(message.tickets()) or is_one_of_many
        if not is_complete:
            _small[obj.__qualname__] += is_small
            reduced = _published, (*object_ids.of(obj)[0], name, *code_store.add(content))
            _sent[obj] = _Sent(snapshot, reduced)
            return reduced
    content, snapshot, _ = dumps_whole(obj)
    _sent[obj] = _Sent(snapshot if _publishes else None, None, is_complete)
    return _whole, (*object_ids.of(obj)[0], name, content)


def _name_in_main(obj: Any) -> str | None:
    """Return the name by which a process with the main module finds an object, None if there is none."""
    name: str = obj.__qualname__
    if obj.__module__ not in MAIN or "<" in name:
        return None
    return name if not _has_main or find(name) is obj else None


def _is_here(object_id: ObjectId, name: str | None) -> Any:
    known = object_ids.find(object_id)
    return find(name) if known is None and _has_main and name is not None else known


def _whole(process: bytes, count: int, name: str | None, content: bytes) -> Any:
    # A worker also loads what it has: the globals may be new.
    known = _is_here((process, count), name) if _has_main else None
    if known is None:
        known = loads_whole(content)
        _sent.pop(known, None)  # it was sent as it was in the code store
    return known


def _published(process: bytes, count: int, name: str | None, origin: bytes, offset: int, size: int) -> Any:  # noqa: PLR0917
    object_id, location = (process, count), (origin, offset, size)
    with object_ids.loading:
        known = _is_here(object_id, name)
        if known is not None:
            return known
        content = code_store.read(location)
        if content is None:
            _raise_foreign(name)
        obj = loads_whole(content)
        _kept[object_id] = obj
        _sent[obj] = _Sent(None, (_published, (*object_id, name, *location)))
        return obj


def _raise_foreign(name: str | None) -> NoReturn:
    msg = (
        f"{name or 'a function'} was sent to a process without the main module that defines it (a notebook "
        "or another program). Workers of the start method 'server' do not need that module: start this "
        "one by 'server', or move the definition to a module that both import"
    )
    raise pickle.UnpicklingError(msg)
