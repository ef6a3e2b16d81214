"""One end of a connection whose other end can map this process's memory."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from shmtensor.errors import ShmTensorError, StaleHandleError
from shmtensor.integrations._dask.frames import Piece, dump_pieces, load_pieces, put_back, take_out
from shmtensor.integrations._dask.membership import withdraw

__all__ = ["Link"]


class Link:
    """What this end has sent and the other end has not confirmed.

    A message's handles have no tickets. This process holds the blocks, so they are freed if it is killed, as
    the message is lost then. Each message of the other end confirms the messages that it had read before; a
    connection that is closed needs no confirmation.

    Threads: one writes, one reads, one closes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: deque[tuple[int, list[Piece]]] = deque()
        self._sent = 0
        self._read = 0
        self._closed = False

    def shorten(self, frames: list[Any]) -> list[Any]:
        """Return the frames of the next message of this end, which keep nothing allocated.

        The blocks stay allocated until the other end has confirmed the message, or the connection is closed.
        """
        pieces = take_out(frames)
        frames.append(dump_pieces(self._read, pieces))
        with self._lock:
            self._sent += 1
            if pieces and not self._closed:
                self._held.append((self._sent, pieces))
        return frames

    def restore(self, frames: list[Any]) -> list[Any]:
        """Return the frames of the next message of the other end, with their buffers.

        Raises
        ------
        EOFError
            If the other end does not hold a block any more, or it cannot be mapped. Dask closes a connection
            with a truncated message, and takes the data from another worker or connection.
        """
        *frames, last = frames
        try:
            confirmed, pieces = load_pieces(last)
        except StaleHandleError as error:
            msg = "the sender of a message has ended, or has closed the connection"
            raise EOFError(msg) from error
        except (ShmTensorError, OSError) as error:
            withdraw(error)  # the next connection agrees on nothing
            msg = "a message is in memory that this process cannot map"
            raise EOFError(msg) from error
        put_back(frames, pieces)
        self._read += 1
        self._release(confirmed)
        return frames

    def close(self) -> None:
        """Release what the other end has not confirmed."""
        with self._lock:
            self._closed = True
            released, self._held = self._held, deque()
        released.clear()

    def _release(self, confirmed: int) -> None:
        released = []
        with self._lock:
            while self._held and self._held[0][0] <= confirmed:
                released.append(self._held.popleft())
