"""Forked processes for the questions of `bench.gpu.facts`, each with a limit that lies before its parent's.

A question needs processes of its own: the driver starts once in each, its errors may end all use of the GPU
in one, and what becomes of the others is what is asked.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import math
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 30.0
MARGIN = 3.0  # a child gives up so long before its parent that its word still arrives
HANDLE = 64  # bytes of CUipcMemHandle and CUipcEventHandle
SIZE = 1 << 16
ERROR = b'{"error": '

_until = math.inf  # what time.monotonic() says when this process has to end


class NoAnswerError(RuntimeError):
    """What a process said in place of an answer, or that it said nothing."""


class Child:
    """A forked process that runs a function with its end of a socket; it ends at its limit by itself.

    Where this process has no limit of its own, the child leads a process group, all of which ends with it.
    """

    def __init__(self, body: Callable[[socket.socket], Any], seconds: float = LIMIT) -> None:
        self.seconds = min(seconds, _until - MARGIN - time.monotonic())
        if self.seconds <= 0:
            raise NoAnswerError("not asked: the time of who asks is over")
        self.until = time.monotonic() + self.seconds
        self.leads = math.isinf(_until)
        self.reaped: int | None = None
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self.line.close()
            _run(body, theirs, self.until, leads=self.leads)
        theirs.close()
        if self.leads:
            with contextlib.suppress(OSError):  # the child has done it, or is gone
                os.setpgid(self.pid, self.pid)

    def receive(self) -> bytes:
        """The next message; an error where the process sent one, has ended, or takes too long."""
        # It is given time to show on stderr where it stands.
        self.line.settimeout(max(self.until + MARGIN / 2 - time.monotonic(), 0.01))
        try:
            content = self.line.recv(SIZE)
        except TimeoutError:
            raise NoAnswerError(f"no answer within {self.seconds:.0f} s") from None
        if content.startswith(ERROR):
            raise NoAnswerError(json.loads(content)["error"])
        if not content:
            raise NoAnswerError(self._how_it_ended())
        return content

    def handle(self) -> bytes:
        """The next message, which is 64 bytes of the driver's."""
        content = self.receive()
        if len(content) != HANDLE:
            raise NoAnswerError(f"{content!r} came in place of a handle")
        return content

    def answer(self) -> Any:
        """The next message, which is JSON."""
        return json.loads(self.receive())

    def send(self, content: bytes) -> None:
        self.line.send(content)

    def kill(self) -> None:
        """End it, and all of its group if it leads one; reap it, unless the driver does not let go of it."""
        if self.reaped is None:
            self._kill()
        self.wait()
        self.line.close()

    def wait(self, timeout: float = 5.0) -> int | None:
        """Reap it and return its status; None if it has not ended in time."""
        end = time.monotonic() + timeout
        while self.reaped is None and time.monotonic() < end:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                time.sleep(0.002)
                continue
            if self.leads:  # now, while the group's number is certainly still its own
                self._kill()
            self.reaped = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.reaped

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if self.leads else os.kill)(self.pid, signal.SIGKILL)

    def _how_it_ended(self) -> str:
        code = self.wait()
        if code == -signal.SIGALRM:
            return f"no answer within {self.seconds:.0f} s; stderr shows where it stood"
        return f"it ended without an answer, exit code {code}"


def _run(body: Callable[[socket.socket], Any], end: socket.socket, until: float, *, leads: bool) -> None:
    global _until
    _until = until
    if leads:
        os.setpgid(0, 0)
    faulthandler.register(signal.SIGALRM, chain=True)  # shows where it stands, then ends it
    signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), 0.01))
    try:
        body(end)
        os._exit(0)
    except BaseException as error:  # reported to the parent, whatever it is
        text = f"{type(error).__name__}: {error}" if type(error) is not NoAnswerError else str(error)
        with contextlib.suppress(OSError):
            end.send(json.dumps({"error": text[:2000]}).encode())
        os._exit(1)


def ask(body: Callable[[], Any], seconds: float = LIMIT) -> Any:
    """What a function answers in a process of its own; `{"error": text}` if it does not."""
    try:
        asked = Child(lambda end: end.send(json.dumps(body()).encode()), seconds)
        try:
            return asked.answer()
        finally:
            asked.kill()
    except (NoAnswerError, ValueError, OSError) as error:
        return {"error": str(error)}


def in_new_pids(body: Callable[[socket.socket], Any]) -> Callable[[socket.socket], None]:
    """Run a function as process 1 of a PID namespace."""

    def outer(end: socket.socket) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x20000000) != 0:
            raise OSError(ctypes.get_errno(), "cannot make a PID namespace")
        if os.fork() == 0:
            libc.prctl(1, signal.SIGKILL)  # it ends with its parent: no timer's signal ends a process 1
            body(end)
            os._exit(0)
        os.wait()

    return outer
