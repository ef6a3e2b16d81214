"""Messages in pipes of the standard library, which torch uses: their tickets end with the pipe's readers.

So batches that a worker has prefetched are freed after a loop has left its `DataLoader` early.
"""

from __future__ import annotations

from multiprocessing import connection, queues
from multiprocessing.reduction import ForkingPickler
from typing import Any

from torch.multiprocessing.queue import ConnectionWrapper

from shmtensor.integrations._replacements import Replacements
from shmtensor.integrations._sending import into_pipe, of_feeder, of_queue, pickles_message

__all__ = ["install", "uninstall"]

_replaced = Replacements()


def install() -> None:
    """Assign each message to its pipe."""
    pickler: Any = ForkingPickler
    feeder: Any = queues.Queue
    sender: Any = connection._ConnectionBase
    _replaced.set(pickler, "dumps", classmethod(pickles_message(pickler.dumps.__func__)))
    _replaced.set(sender, "send", into_pipe(sender.send, lambda end, _: end))
    _replaced.set(feeder, "_feed", staticmethod(into_pipe(feeder._feed, of_feeder)))
    _replaced.set(queues.SimpleQueue, "put", into_pipe(queues.SimpleQueue.put, of_queue))
    # It pickles by another method, and writes in the same call.
    _replaced.set(
        ConnectionWrapper, "send", into_pipe(pickles_message(ConnectionWrapper.send), lambda end, _: end.conn)
    )


def uninstall() -> None:
    """Restore the standard library's and torch's functions."""
    _replaced.restore()
