"""The client of the worker server: starts the server, and requests workers from it."""

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

from shmtensor.multiprocessing._lifetime.fork_safe import reset_in_forked_children
from shmtensor.multiprocessing._worker_server import stdlib_private

__all__ = ["REPLY", "client", "set_server_preload"]

REPLY = struct.Struct("<iq")  # an error number, or zero and a pid
_MAX_DESCRIPTORS = 253  # of one message; the kernel's limit
_ENDED = "the worker server ended while it started a worker; see its standard error"
_ENTRY = (
    "import sys; sys.path[:] = {path!r}; "
    "from shmtensor.multiprocessing._worker_server.server import main; main({fd}, {names!r})"
)


class Client:
    """The connection to the server. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._preload: tuple[str, ...] = ()
        self._reply_pending = False  # to the last request

    def set_preload(self, names: tuple[str, ...]) -> None:
        with self._lock:
            if names != self._preload:
                self._preload = names
                self._stop()

    def start_worker(self, descriptors: list[int]) -> tuple[int, int]:
        """Request a worker that gets these descriptors; return its pid and a pidfd."""
        if len(descriptors) > _MAX_DESCRIPTORS:
            msg = f"a worker of start method 'server' can inherit {_MAX_DESCRIPTORS} descriptors, not "
            raise ValueError(msg + str(len(descriptors)))
        with self._lock:
            answer = self._request(descriptors)
            if answer is None:
                self._stop()
                answer = self._request(descriptors)
            if answer is None:
                raise ChildProcessError(_ENDED)
            return answer

    def _request(self, descriptors: list[int]) -> tuple[int, int] | None:
        """Send one request; return None if the server had ended before it read the request."""
        if self._reply_pending:  # a late reply would be mistaken for the reply to this request
            self._stop()
        if self._socket is None:
            self._start()
        connection = self._socket
        assert connection is not None
        self._reply_pending = True
        try:
            socket.send_fds(connection, [b"start"], descriptors)
            message, fds, _, _ = socket.recv_fds(connection, REPLY.size, 1)
        except (BrokenPipeError, ConnectionResetError):
            return None
        if not message:
            raise ChildProcessError(_ENDED)
        self._reply_pending = False
        error, pid = REPLY.unpack(message)
        if not error and not fds:
            error = errno.EMFILE  # how the kernel reports that this process has no free descriptor
        if error:
            advice = "; close files or raise the limit (ulimit -n)" if error == errno.EMFILE else ""
            raise OSError(
                error, f"cannot start a worker from the worker server: {os.strerror(error)}{advice}"
            )
        return pid, fds[0]

    def _start(self) -> None:
        stdlib_private.check()
        reset_in_forked_children(self)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.settimeout(None)  # a program may have set a default
        self._reply_pending = True
        self._socket = ours
        path = [os.path.abspath(entry) if entry else os.getcwd() for entry in sys.path]  # noqa: PTH100, PTH109
        code = _ENTRY.format(path=path, fd=theirs.fileno(), names=self._preload)
        executable = os.fsdecode(spawn.get_executable())
        with theirs:
            self._server = subprocess.Popen(
                [executable, *stdlib_private.interpreter_arguments(), "-c", code], pass_fds=[theirs.fileno()]
            )
        problems = ours.recv(1 << 16)
        if not problems:
            msg = "the worker server could not start; see its standard error"
            raise ChildProcessError(msg)
        self._reply_pending = False
        if problems != b"ready":
            warnings.warn(f"the worker server could not preload {problems.decode()}", stacklevel=6)

    def _stop(self) -> None:
        """Close the connection; the server ends after the workers that it has started."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._reply_pending = False
        if self._server is not None:
            _detached_servers.append(self._server)
            self._server = None
        _detached_servers[:] = [server for server in _detached_servers if server.poll() is None]

    def reset_in_child(self) -> None:
        self._lock = threading.Lock()
        if self._server is not None:
            self._server.returncode = 0  # only the parent can wait for it
            self._server = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None


_detached_servers: list[subprocess.Popen[bytes]] = []
client = Client()


def set_server_preload(modules: Any) -> None:
    """Choose modules that the worker server imports before it starts workers.

    NumPy and shmtensor are always preloaded. Workers start as quickly as a fork, and share the memory of the
    imported modules. A running server is replaced at the next start of a worker.

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
