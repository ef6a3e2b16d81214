"""The client of the worker server: starts the server, and requests workers from it."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import warnings
from multiprocessing import spawn, util
from typing import Any

from shmtensor._fork import no_fork, reset_in_forked_children
from shmtensor.multiprocessing import _frozen
from shmtensor.multiprocessing._lifetime.signals import blocked

# Workers import the library of an integration of their program, which takes seconds. These have no threads
# after they are imported.
_INTEGRATIONS = tuple(f"shmtensor.integrations.{name}" for name in ("pandas", "pyarrow", "torch"))
REPLY = struct.Struct("<iq")  # an error number, or zero and a pid
_MAX_DESCRIPTORS = 253  # of one message; the kernel's limit
AT_EXIT = -50  # priority: after the standard library has waited for all workers
_ENDED = "the worker server ended while it started a worker; see its standard error"
_ENTRY = "import sys; sys.path[:] = {path!r}; " + _frozen.SERVER + "; main({fd}, {names!r})"


class _Server:
    """A worker server, and the connection to it. Threads: one at a time."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        if _frozen.is_server():
            msg = "a frozen program calls shmtensor.multiprocessing.freeze_support() first in its main guard"
            raise RuntimeError(msg)
        self.preload = preload
        self.credentials = _credentials()
        path = [os.path.abspath(entry) if entry else os.getcwd() for entry in sys.path]
        flags: list[str] = util._args_from_interpreter_flags()  # type: ignore[attr-defined]
        command = [os.fsdecode(spawn.get_executable()), *flags, "-c"]
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.ExitStack() as failed:
            with no_fork():  # a child that has `theirs` would hide the end of the server
                self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                failed.callback(self.close)
                reset_in_forked_children(self)
                with theirs, blocked(signal.SIGINT):  # until the server ignores it
                    for end in (self._socket, theirs):
                        end.settimeout(None)  # a program may have set a default
                    code = _ENTRY.format(path=path, fd=theirs.fileno(), names=preload)
                    self._process = subprocess.Popen(
                        [*command, code], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                    )
            problems = self._socket.recv(1 << 16)
            if not problems:
                msg = "the worker server could not start; see its standard error"
                raise ChildProcessError(msg)
            failed.pop_all()
        self.problems = "" if problems == b"ready" else problems.decode(errors="replace")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def fileno(self) -> int:
        return self._socket.fileno()

    def request(self, descriptors: list[int]) -> tuple[int, int, list[int]] | None:
        """Return the reply to one request, or None if the server had ended before it read the request."""
        try:
            socket.send_fds(self._socket, [b"start"], descriptors)
            message, fds, _, _ = socket.recv_fds(self._socket, REPLY.size, 1)
        except (BrokenPipeError, ConnectionResetError):
            return None
        if not message:
            raise ChildProcessError(_ENDED)
        return (*REPLY.unpack(message), fds)

    def close(self) -> None:
        """Close the connection; the server ends after the workers that it has started."""
        self._socket.close()
        if self._process is not None:
            _detached_servers.append(self._process)
            self._process = None

    def reset_in_child(self) -> None:
        self._socket.close()
        if self._process is not None:
            self._process.returncode = 0  # only the parent can wait for it


class Client:
    """Starts workers by a server, which is started when it is first needed. Threads: any.

    A signal handler or finalizer may start a worker while its thread waits for a reply: the server is not
    available to it then, so that it starts another one.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._server: _Server | None = None  # without a pending reply
        self._preload: tuple[str, ...] = ()
        self._at_exit: util.Finalize | None = None
        reset_in_forked_children(self)

    def set_preload(self, names: tuple[str, ...]) -> None:
        with self._lock:
            self._preload = names

    def start_worker(self, descriptors: list[int]) -> tuple[int, int]:
        """Request a worker that gets these descriptors; return its pid and a pidfd."""
        if len(descriptors) > _MAX_DESCRIPTORS:
            msg = f"a worker of start method 'server' can inherit {_MAX_DESCRIPTORS} descriptors, not "
            raise ValueError(msg + str(len(descriptors)))
        with self._lock:
            reply = self._request(descriptors) or self._request(descriptors)
        if reply is None:
            raise ChildProcessError(_ENDED)
        error, pid, fds = reply
        if not error and not fds:
            error = errno.EMFILE  # how the kernel reports that this process has no free descriptor
        if error:
            advice = "; close files or raise the limit (ulimit -n)" if error == errno.EMFILE else ""
            raise OSError(
                error, f"cannot start a worker from the worker server: {os.strerror(error)}{advice}"
            )
        return pid, fds[0]

    def _request(self, descriptors: list[int]) -> tuple[int, int, list[int]] | None:
        server, self._server = self._usable_server(), None
        reply = None
        try:
            reply = server.request(descriptors)
        finally:
            if reply is None:
                server.close()  # a late reply would be mistaken for the reply to the next request
            else:
                self._keep(server)
        return reply

    def _usable_server(self) -> _Server:
        preload = (*self._preload, *(name for name in _INTEGRATIONS if name in sys.modules))
        if self._server is not None and (
            self._server.credentials != _credentials()  # its workers would have rights given up since
            or self._server.preload != preload
        ):
            self._keep(None)
        if self._server is None:
            server = _Server(preload)
            self._keep(server)
            if self._at_exit is None:
                self._at_exit = util.Finalize(None, self.close, exitpriority=AT_EXIT)
            if server.problems:
                warnings.warn(f"the worker server could not preload {server.problems}", stacklevel=8)
            return server
        return self._server

    def _keep(self, server: _Server | None) -> None:
        before, self._server = self._server, server
        if before is not None:
            before.close()
        _detached_servers[:] = [old for old in _detached_servers if old.poll() is None]

    def close(self) -> None:
        """Close the connection, at exit; the server ends by itself, after its workers."""
        with self._lock:
            self._keep(None)
        while _detached_servers:
            _detached_servers.pop().returncode = 0  # `subprocess` warns of children that still run

    def reset_in_child(self) -> None:
        self._lock = threading.RLock()
        self._server = None
        self._at_exit = None


def _credentials() -> object:
    return os.getresuid(), os.getresgid(), os.getgroups()


_detached_servers: list[subprocess.Popen[bytes]] = []
client = Client()


def set_server_preload(modules: Any) -> None:
    """Choose modules that the worker server imports before it starts workers.

    NumPy and shmtensor are always preloaded, and so are torch, pandas and pyarrow where `install` has set
    them up. Workers start as quickly as a fork, and share the memory of the imported modules. A running
    server is replaced at the next start of a worker.

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
