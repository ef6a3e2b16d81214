"""A transport whose messages arrive completely or not at all, even if the writer is killed.

A pipe keeps half a message of a killed writer; a datagram socket does not.
"""

from __future__ import annotations

import pickle
import socket
from multiprocessing.connection import wait
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
        """Return False if the mailbox is full; then nothing was sent."""
        with _core.SendScope() as message:
            content = ForkingPickler.dumps(obj)
            try:
                self.writer.send(content)
            except BlockingIOError:
                message.discard()
                return False
            message.delivered()
        return True

    def receive(self) -> Any:
        """Return the next object, or None if the mailbox is empty."""
        content = self.receive_bytes()
        return None if content is None else pickle.loads(content)

    def receive_bytes(self) -> bytes | None:
        """Return the bytes of the next message, or None if the mailbox is empty."""
        try:
            return self.reader.recv(1 << 20)
        except BlockingIOError:
            return None

    def wait(self, *sentinels: int) -> None:
        """Wait for a message or for the end of one of the processes, a second at most."""
        wait([self.reader, *sentinels], 1)

    def close(self) -> None:
        self.reader.close()
        self.writer.close()
