"""The report that a worker sends through a pipe at its end: one message with a header and a body.

A worker that ends without a report was ended by a signal, or by `os._exit`.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any

import shmtensor._core as _core
from shmtensor._fork import Descriptor, no_fork, reset_in_forked_children
from shmtensor._pickling import dumps
from shmtensor.multiprocessing._lifetime.signals import blocked


@dataclass(frozen=True)
class Returned:
    """The function returned; `content` is its pickled value, or None if `problem` prevented that."""

    content: bytes | None
    problem: str
    time: float


@dataclass(frozen=True)
class Exited:
    """The function called `sys.exit`."""

    code: Any
    time: float


@dataclass(frozen=True)
class Raised:
    """The function raised; `content` is the pickled exception, or None if it cannot be pickled."""

    text: str
    content: bytes | None
    time: float


Report = Returned | Exited | Raised
_HEADER = struct.Struct("<Q")
_PIECE = 1 << 16


class Sender:
    """The worker's end.

    SIGTERM is blocked while it sends: tensors that were pickled and not sent would stay allocated until the
    next `gc`.
    """

    def __init__(self, fd: Any) -> None:
        self._fd: int = fd.detach() if hasattr(fd, "detach") else fd

    def returned(self, value: Any) -> None:
        with blocked(signal.SIGTERM), _core.SendScope() as message:
            try:
                report = Returned(dumps(value), "", time.monotonic())
            except Exception as error:  # most callers do not read results: not a failure yet
                message.discard()
                report = Returned(None, f"{type(error).__name__}: {error}", time.monotonic())
            self._send(report, message)

    def exited(self, code: Any) -> None:
        known = code if code is None or isinstance(code, int) else str(code)
        with blocked(signal.SIGTERM):
            self._send(Exited(known, time.monotonic()), _core.SendScope())

    def raised(self, error: BaseException) -> bool:
        """Report an exception; return False if the parent has closed the pipe."""
        now = time.monotonic()
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        with blocked(signal.SIGTERM), _core.SendScope() as message:
            try:
                content = dumps(error)
            except Exception:
                message.discard()
                content = None
            return self._send(Raised(text, content, now), message)

    def _send(self, report: Report, message: _core.SendScope) -> bool:
        body = pickle.dumps(report)
        try:
            message.write(self._fd, _HEADER.pack(len(body)), body)
        except BrokenPipeError:
            return False
        return True


class ReportPipe:
    """The parent's end. It is pickled with the Process object; the worker gets the other end."""

    def __init__(self) -> None:
        self._received = bytearray()
        self.ended = False  # no process has the writing end open
        with no_fork():
            self._reader, self._writer = map(Descriptor, os.pipe())
            reset_in_forked_children(self)
        os.set_blocking(self.reader, False)

    def __reduce__(self) -> Any:
        return Sender, (reduction.DupFd(self._writer.fileno()),)

    @property
    def reader(self) -> int:
        return self._reader.fileno()

    def sender(self) -> Sender:
        """Return the worker's end, in a forked worker."""
        return Sender(self._writer.fileno())

    def started(self) -> None:
        """Close the worker's end, in the parent."""
        self._writer.close()

    def read(self) -> Report | None:
        """Read what has arrived; return the report once it is complete."""
        with suppress(BlockingIOError):
            while piece := os.read(self.reader, _PIECE):
                self._received += piece
            self.ended = True
        if len(self._received) < _HEADER.size:
            return None
        (size,) = _HEADER.unpack_from(self._received)
        body = memoryview(self._received)[_HEADER.size :]
        if len(body) < size:
            return None
        report: Report = pickle.loads(body)
        return report

    def reset_in_child(self) -> None:
        self._reader.close()

    def close(self) -> None:
        self._writer.close()
        self._reader.close()
