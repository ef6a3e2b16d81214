"""Reader processes of a broadcast, or of a queue to one process, and the processor time of all together."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from typing import Any

import shmtensor as st
from bench.options import Options
from bench.timing import used

TIMEOUT = 60  # seconds until all readers have acknowledged

# Messages to the readers. A None is always acknowledged.
END, EACH, NONE = "end", "acknowledge each", "acknowledge none"


def _read(options: Options, opened: Callable[[], Iterable[Any]], done: Any) -> None:
    """Read all messages."""
    options.place(1)
    each = False
    for message in opened():
        if isinstance(message, str):
            if message == END:
                return
            each = message == EACH
        elif each or message is None:
            del message
            done.put(b"")


class Readers:
    """The writer's view of the readers.

    Parameters
    ----------
    opened
        For each reader, what returns the messages when it is called in the reader's process.
    connect
        Called after the readers were started; returns the function that puts a message.
    """

    def __init__(
        self,
        opened: list[Callable[[], Iterable[Any]]],
        connect: Callable[[], Callable[[Any], object]],
        options: Options,
    ) -> None:
        self._done = st.Queue()
        context = multiprocessing.get_context("spawn")
        self._processes: list[Any] = [
            context.Process(target=_read, args=(options, one, self._done), daemon=True) for one in opened
        ]
        for process in self._processes:
            process.start()
        self.put = connect()
        self.settle()

    def settle(self) -> None:
        """Wait until all readers have read all messages."""
        self.put(None)
        self.wait()

    def wait(self) -> None:
        """Wait until all readers have acknowledged a message."""
        for _ in self._processes:
            self._done.get(timeout=TIMEOUT)

    def acknowledge_each(self, *, each: bool) -> None:
        """Make the readers acknowledge all messages from here on, or none."""
        self.put(EACH if each else NONE)

    def close(self) -> None:
        self.put(END)
        for process in self._processes:
            process.join(10)
            process.kill()
            process.join()

    def processor_time(self) -> float:
        """Return the seconds that this process and all readers have run."""
        return sum(used(pid) for pid in [os.getpid(), *(process.pid for process in self._processes)])
