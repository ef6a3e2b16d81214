"""A record of all messages of queues, which outlives the processes that put and receive them."""

from __future__ import annotations

import os
import struct
from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from fcntl import F_SETPIPE_SZ, fcntl
from multiprocessing import Pipe

_RECORD = struct.Struct("<3q")  # an event, the queue, a number
CAPACITY = 1 << 20  # bytes in the pipe that the director has not read


class Event(IntEnum):
    """What happened; a put and a get are noted before and after."""

    PUTTING = 0  # message n
    PUT = 1
    REFUSED = 2  # the queue was full or shut down
    GETTING = 3  # at most n messages
    GOT = 4  # message n
    DONE_GETTING = 5  # the n of GETTING: no other message was taken
    DISCARDED = 6  # messages of the queue, by `shutdown(immediate=True)`
    DRAINED = 7  # the queue was empty, and this process will not use it any more
    REDELIVERS = 8  # the queue delivers the messages of killed consumers again
    FAILED = 9  # a get of at most n messages, by an exception


@dataclass
class History:
    """What is known of one queue."""

    putting: set[int] = field(default_factory=set)
    put: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    got: set[int] = field(default_factory=set)
    unfinished: int = 0  # messages that interrupted gets may have taken
    failed: int = 0  # messages that gets with an exception may have taken
    discarded: bool = False
    redelivers: bool = False
    drained: bool = False


class LedgerWriter:
    """Can be pickled. A note is one write to a pipe, which is whole, and needs no limited resource."""

    def __init__(self, writer) -> None:
        self.writer = writer

    def note(self, *events: tuple[Event, int, int]) -> None:
        os.write(self.writer.fileno(), b"".join([_RECORD.pack(*event) for event in events]))


class Ledger:
    """The director's end; it reads often, so that no writer waits for long."""

    def __init__(self) -> None:
        self.reader, writer = Pipe(False)
        fcntl(writer.fileno(), F_SETPIPE_SZ, CAPACITY)
        os.set_blocking(self.reader.fileno(), False)
        self.writer = LedgerWriter(writer)
        self.histories: dict[int, History] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.rest = b""

    def read(self) -> None:
        """Read all notes that were written."""
        while True:
            try:
                content = self.rest + os.read(self.reader.fileno(), CAPACITY)
            except BlockingIOError:
                return
            end = len(content) // _RECORD.size * _RECORD.size
            for kind, queue, number in _RECORD.iter_unpack(content[:end]):
                self._add(Event(kind), self.histories.setdefault(queue, History()), number)
            self.rest = content[end:]

    def _add(self, event: Event, history: History, number: int) -> None:
        if event == Event.PUTTING:
            history.putting.add(number)
        elif event == Event.PUT:
            history.put.add(number)
            self.counts["put into queues"] += 1
        elif event == Event.REFUSED:
            history.refused.add(number)
        elif event == Event.GETTING:
            history.unfinished += number
        elif event == Event.DONE_GETTING:
            history.unfinished -= number
        elif event == Event.DISCARDED:
            history.discarded = True
        elif event == Event.DRAINED:
            history.drained = True
        elif event == Event.REDELIVERS:
            history.redelivers = True
        elif event == Event.FAILED:
            history.failed += number
        else:
            self._receive(history, number)

    def _receive(self, history: History, number: int) -> None:
        self.counts["received from queues"] += 1
        if number in history.got and history.redelivers:
            self.counts["received again"] += 1
        elif number in history.got:
            self.problems.append(f"message {number:#x} of a queue was received twice")
        if number not in history.putting:
            self.problems.append(f"message {number:#x} was received from a queue into which it was not put")
        history.got.add(number)

    def judge(self, may_lose: bool) -> list[str]:
        """Return the problems when all processes have drained their queues; begin with new queues.

        A message may be missing only if a get was interrupted, by a kill or an exception; of a queue that
        redelivers, only by an exception. A queue that no process has drained had no user any more, so its
        messages were freed.
        """
        self.read()
        for history in self.histories.values():
            if wrong := history.got & history.refused:
                self.problems.append(f"{len(wrong)} messages were received whose put was refused")
            missing = history.put - history.got
            if not history.drained or history.discarded:
                self.counts["queues freed with messages"] += bool(missing)
                continue
            self.counts["queues drained"] += 1
            self.counts["messages of interrupted gets"] += len(missing)
            allowed = history.failed if history.redelivers else history.unfinished
            if len(missing) > allowed and not may_lose:
                self.problems.append(
                    f"{len(missing)} of {len(history.put)} messages of a queue are missing, "
                    f"and {allowed} gets were interrupted"
                )
        self.histories.clear()
        return self.problems

    def close(self) -> None:
        self.reader.close()
        self.writer.writer.close()
