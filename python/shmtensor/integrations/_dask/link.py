"""One end of a connection whose other end can map this process's memory."""

from __future__ import annotations

import threading
from typing import Any

from shmtensor.errors import ShmTensorError, StaleHandleError
from shmtensor.integrations._dask.frames import Message, dump_message, load_message, put_back, take_out
from shmtensor.integrations._dask.membership import withdraw


class Link:
    """The messages that this end has sent and the other end has not read.

    Their handles have no tickets. This process holds the blocks, so they are freed if it is killed, as the
    message is lost then. The other end marks a message as read, in shared memory, when it holds the blocks.
    This end releases such a message when it makes or reads the next one, and when it closes the connection.

    Threads: one writes, one reads, one closes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unread: list[Message] = []
        self._closed = False

    def shorten(self, frames: list[Any]) -> list[Any]:
        """Return the frames of the next message of this end, which keep nothing allocated.

        The blocks stay allocated until the other end has read the message, or the connection is closed.
        """
        self.has_unread()
        message = take_out(frames)
        if message is None:
            return [*frames, b""]
        with self._lock:
            if not self._closed:
                self._unread.append(message)
        return [*frames, dump_message(message)]

    def restore(self, frames: list[Any]) -> list[Any]:
        """Return the frames of the next message of the other end, with their buffers.

        Raises
        ------
        EOFError
            If the other end does not hold a block any more, or it cannot be mapped. Dask closes a connection
            with a truncated message, and takes the data from another worker or connection.
        """
        self.has_unread()
        *frames, last = frames
        if not len(last):
            return frames
        try:
            message = load_message(last)
        except StaleHandleError as error:
            msg = "the sender of a message has ended, or has closed the connection"
            raise EOFError(msg) from error
        except (ShmTensorError, OSError) as error:
            withdraw(error)  # the next connection agrees on nothing
            msg = "a message is in memory that this process cannot map"
            raise EOFError(msg) from error
        put_back(frames, message.pieces)
        message.read.numpy()[0] = True
        return frames

    def has_unread(self) -> bool:
        """Return True if the other end has not read all messages; release those that it has read."""
        with self._lock:
            before = self._unread  # which is released without the lock
            self._unread = [message for message in before if not message.read.numpy()[0]]
            return bool(self._unread)

    def close(self) -> None:
        """Release what the other end has not read."""
        with self._lock:
            self._closed = True
            released, self._unread = self._unread, []
        released.clear()
