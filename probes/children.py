"""Forked processes for the experiments of `probes.facts`, each with a shorter time limit than its parent.

An experiment runs in its own processes: the driver can be initialized once per process, an error may make
the GPU unusable in one of them, and its effect on the others is what the experiment observes.
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
MARGIN = 3.0  # seconds by which a child stops before its parent, so that its report still arrives
HANDLE = 64  # bytes of CUipcMemHandle and CUipcEventHandle
SIZE = 1 << 16
ERROR = b'{"error": '
NEW_PIDS, NEW_MOUNTS = 0x20000000, 0x00020000
RECURSIVE, PRIVATE = 1 << 14, 1 << 18

_until = math.inf  # the value of time.monotonic() at which this process must exit


class NoAnswerError(RuntimeError):
    """A process reported an error, or exited without an answer."""


class Child:
    """A forked process that runs a function with its end of a socket; it exits at its time limit.

    If this process has no time limit, the child leads a process group that is killed with it.
    """

    def __init__(self, body: Callable[[socket.socket], Any], seconds: float = LIMIT) -> None:
        self.seconds = min(seconds, _until - MARGIN - time.monotonic())
        if self.seconds <= 0:
            raise NoAnswerError("not run: the time limit of the parent is reached")
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
        """Return the next message; raise if the process sent an error, exited or took too long."""
        # The child gets time to print its stack to stderr.
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
        """Return the next message, a handle of 64 bytes."""
        content = self.receive()
        if len(content) != HANDLE:
            raise NoAnswerError(f"{content!r} received instead of a handle")
        return content

    def answer(self) -> Any:
        """Return the next message, decoded from JSON."""
        return json.loads(self.receive())

    def send(self, content: bytes) -> None:
        self.line.send(content)

    def kill(self) -> None:
        """Kill the process, or its group if it leads one; reap it unless the driver blocks its exit."""
        if self.reaped is None:
            self._kill()
        self.wait()
        self.line.close()

    def wait(self, timeout: float = 5.0) -> int | None:
        """Reap the process and return its exit status; None if it did not exit in time."""
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
            return f"no answer within {self.seconds:.0f} s; its stack is on stderr"
        return f"the process exited without an answer, exit code {code}"


def _run(body: Callable[[socket.socket], Any], end: socket.socket, until: float, *, leads: bool) -> None:
    global _until
    _until = until
    if leads:
        os.setpgid(0, 0)
    faulthandler.register(signal.SIGALRM, chain=True)  # prints the stack, then ends the process
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
    """Return the answer of a function that runs in its own process; `{"error": text}` if it fails."""
    try:
        asked = Child(lambda end: end.send(json.dumps(body()).encode()), seconds)
        try:
            return asked.answer()
        finally:
            asked.kill()
    except (NoAnswerError, ValueError, OSError) as error:
        return {"error": str(error)}


def private_mounts(more: int = 0) -> Any:
    """Enter a mount namespace whose mounts stay in it, and those of other flags; return the C library."""
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.unshare(NEW_MOUNTS | more) != 0
        or libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None) != 0
    ):
        raise OSError(ctypes.get_errno(), "cannot make a namespace")
    return libc


def in_new_pids(body: Callable[[socket.socket], Any]) -> Callable[[socket.socket], None]:
    """Run a function as process 1 of a PID namespace, with its own /proc, which the driver reads."""

    def outer(end: socket.socket) -> None:
        libc = private_mounts(NEW_PIDS)
        if os.fork() == 0:
            if libc.mount(b"proc", b"/proc", b"proc", 0, None) != 0:
                raise OSError(ctypes.get_errno(), "cannot make a /proc")
            libc.prctl(1, signal.SIGKILL)  # ends with its parent; a timer signal does not end a process 1
            body(end)
            os._exit(0)
        os.wait()

    return outer
