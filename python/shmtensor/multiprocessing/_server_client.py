"""The worker server of this process: starting it, and asking it for workers."""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
import sys
import threading
import warnings
from multiprocessing import spawn
from typing import Any

from shmtensor.multiprocessing import _stdlib
from shmtensor.multiprocessing._parent_only import keep_from_children

__all__ = ["REPLY", "client", "set_server_preload"]

REPLY = struct.Struct("<iq")  # an error number, or zero and a pid
_MOST_DESCRIPTORS = 253  # of one message, by the kernel
_ENDED = "the worker server ended while it started a worker; look at its standard error"
_ENTRY = (
    "import sys; sys.path[:] = {path!r}; "
    "from shmtensor.multiprocessing._server import main; main({fd}, {names!r})"
)


class Client:
    """The line to the server. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._preload: tuple[str, ...] = ()
        self._owed = False  # the server has not said everything that it was asked for

    def set_preload(self, names: tuple[str, ...]) -> None:
        with self._lock:
            if names != self._preload:
                self._preload = names
                self._stop()

    def start_worker(self, descriptors: list[int]) -> tuple[int, int]:
        """Ask for a worker that gets these descriptors; its pid and a pidfd."""
        if len(descriptors) > _MOST_DESCRIPTORS:
            msg = f"a worker of the start method 'server' can inherit {_MOST_DESCRIPTORS} descriptors, not "
            raise ValueError(msg + str(len(descriptors)))
        with self._lock:
            answer = self._ask(descriptors)
            if answer is None:
                self._stop()
                answer = self._ask(descriptors)
            if answer is None:
                raise ChildProcessError(_ENDED)
            return answer

    def _ask(self, descriptors: list[int]) -> tuple[int, int] | None:
        """Ask once; None if the server was killed since the last time, and has not read this."""
        if self._owed:  # an exception came in between: a late answer would be taken for that to this request
            self._stop()
        if self._socket is None:
            self._start()
        line = self._socket
        assert line is not None
        self._owed = True
        try:
            socket.send_fds(line, [b"start"], descriptors)
            message, fds, _, _ = socket.recv_fds(line, REPLY.size, 1)
        except (BrokenPipeError, ConnectionResetError):
            return None
        if not message:
            raise ChildProcessError(_ENDED)
        self._owed = False
        error, pid = REPLY.unpack(message)
        if not error and not fds:
            error = errno.EMFILE  # the kernel has no other way to say so
        if error:
            advice = "; close files or raise the limit (ulimit -n)" if error == errno.EMFILE else ""
            raise OSError(
                error, f"cannot start a worker from the worker server: {os.strerror(error)}{advice}"
            )
        return pid, fds[0]

    def _start(self) -> None:
        _stdlib.check()
        keep_from_children(self)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.settimeout(None)  # a program may have set a default
        self._owed = True
        self._socket = ours
        path = [os.path.abspath(entry) if entry else os.getcwd() for entry in sys.path]  # noqa: PTH100, PTH109
        code = _ENTRY.format(path=path, fd=theirs.fileno(), names=self._preload)
        executable = os.fsdecode(spawn.get_executable())
        with theirs:
            self._server = subprocess.Popen(
                [executable, *_stdlib.interpreter_arguments(), "-c", code], pass_fds=[theirs.fileno()]
            )
        problems = ours.recv(1 << 16)
        if not problems:
            msg = "the worker server could not start; look at its standard error"
            raise ChildProcessError(msg)
        self._owed = False
        if problems != b"ready":
            warnings.warn(f"the worker server could not preload {problems.decode()}", stacklevel=6)

    def _stop(self) -> None:
        """Let go of the server; it ends when the workers that it has started have ended."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._owed = False
        if self._server is not None:
            _left_alone.append(self._server)
            self._server = None
        _left_alone[:] = [server for server in _left_alone if server.poll() is None]

    def forget_in_child(self) -> None:
        self._lock = threading.Lock()
        if self._server is not None:
            self._server.returncode = 0  # the parent's to wait for
            self._server = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None


_left_alone: list[subprocess.Popen[bytes]] = []
client = Client()


def set_server_preload(modules: Any) -> None:
    """Choose modules that the worker server imports before it starts workers.

    NumPy and shmtensor are always there. Workers start as quickly as a fork, and share the memory of what
    was imported. A server that runs already is replaced at the next start of a worker.

    Parameters
    ----------
    modules
        Names of modules. They must not initialise CUDA.
    """
    names = tuple(modules)
    if isinstance(modules, str) or not all(isinstance(name, str) for name in names):
        msg = f"modules must be a sequence of names, not {modules!r}"
        raise TypeError(msg)
    client.set_preload(names)
