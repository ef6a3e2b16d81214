"""A transport whose messages arrive whole or not at all, also when a writer is killed.

A pipe keeps half a message of a killed writer; a datagram socket does not.
"""

from __future__ import annotations

import pickle
import socket
from multiprocessing.reduction import ForkingPickler
from typing import Any

from shmtensor import _core, reducers  # noqa: F401  # registers


class Mailbox:
    """A pair of datagram sockets that any number of processes may write to and read from."""

    def __init__(self) -> None:
        self.reader, self.writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.reader.setblocking(False)
        self.writer.setblocking(False)

    def send(self, obj: Any) -> bool:
        """False when the box is full; then nothing was sent."""
        with _core.Outgoing() as message:
            content = ForkingPickler.dumps(obj)
            try:
                self.writer.send(content)
            except BlockingIOError:
                message.discard()
                return False
            message.delivered()
        return True

    def receive(self) -> Any:
        """The next object, or None when the box is empty."""
        try:
            content = self.reader.recv(1 << 20)
        except BlockingIOError:
            return None
        return pickle.loads(content)

    def close(self) -> None:
        self.reader.close()
        self.writer.close()
