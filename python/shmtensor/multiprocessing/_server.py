"""The worker server: a process of its own that has imported what workers need, and forks them on request.

It is started by exec, has one thread, and never sees the program's main module. One message asks for one
worker and brings what it inherits; the answer is its pid and a descriptor for it. The exit code goes to the
descriptor that came with the request. It ends when its client and all workers have ended.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
from typing import NoReturn

from shmtensor.multiprocessing import _server_worker
from shmtensor.multiprocessing._facts import cuda_is_initialised
from shmtensor.multiprocessing._server_client import REPLY

__all__ = ["EXIT_CODE", "main"]

EXIT_CODE = struct.Struct("<q")
_ALWAYS = (
    *("cloudpickle", "concurrent.futures.process", "multiprocessing.pool", "multiprocessing.synchronize"),
    *("numpy", "numpy.random", "shmtensor", "shmtensor.multiprocessing._popen_server"),
)


class Server:
    """Threads: one."""

    def __init__(self, fd: int) -> None:
        self._client = socket.socket(fileno=fd)
        self._poll = select.epoll()
        self._poll.register(fd, select.EPOLLIN)
        self._workers: dict[int, tuple[int, int]] = {}  # pidfd: pid and where the exit code goes
        self._client_lives = True

    def serve(self) -> None:
        """Until nobody needs this server any more."""
        while self._client_lives or self._workers:
            for fd, _ in self._poll.poll():
                if fd in self._workers:
                    self._reap(fd)
                else:
                    self._take_request()

    def ready(self, problems: str) -> None:
        self._answer(problems.encode()[: 1 << 15] or b"ready", [])

    def _take_request(self) -> None:
        try:
            message, fds, flags, _ = socket.recv_fds(self._client, 16, 253)
        except ConnectionResetError:
            message, fds, flags = b"", [], 0
        if not message:
            self._client_lives = False
            self._poll.unregister(self._client.fileno())
            return
        try:
            if flags & socket.MSG_CTRUNC:
                raise OSError(errno.EMFILE, "no descriptors left")
            pid, pidfd = self._fork(fds)
        except OSError as error:
            self._answer(REPLY.pack(error.errno or 1, 0), [])
        else:
            self._workers[pidfd] = pid, fds.pop(1)  # where the exit code goes
            self._poll.register(pidfd, select.EPOLLIN)
            self._answer(REPLY.pack(0, pid), [pidfd])
        for fd in fds:
            os.close(fd)

    def _fork(self, fds: list[int]) -> tuple[int, int]:
        pid = os.fork()
        if pid == 0:
            self._become_worker(fds)
        try:
            return pid, os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            _exit_code(pid)
            raise

    def _answer(self, message: bytes, fds: list[int]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client is gone
            socket.send_fds(self._client, [message], fds)

    def _reap(self, pidfd: int) -> None:
        pid, status = self._workers.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        code = _exit_code(pid)
        with contextlib.suppress(BrokenPipeError):  # nobody wants to know
            if code is not None:
                os.write(status, EXIT_CODE.pack(code))
        os.close(status)

    def _become_worker(self, fds: list[int]) -> NoReturn:
        try:
            self._client.close()
            self._poll.close()
            for pidfd, (_, status) in self._workers.items():
                os.close(pidfd)
                os.close(status)
            _server_worker.run(fds)
        finally:
            os._exit(1)  # whatever happens, there is one server


def main(fd: int, names: tuple[str, ...]) -> None:
    """Run the server; `fd` is the line to the client."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the program and its workers
    _server_worker.remember(signal.SIGINT, handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # some launchers ignore it: nobody could wait for a child
    server = Server(fd)
    problems = []
    for name in (*_ALWAYS, *names):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: PERF203
            if name != "cloudpickle":  # not needed as long as nothing of __main__ is sent
                problems.append(f"{name} ({type(error).__name__}: {error})")
    if cuda_is_initialised():
        sys.exit(
            "the worker server must not initialise CUDA, which a preloaded module did: " + ", ".join(names)
        )
    _end_threads_of_libraries()
    gc.collect()
    gc.freeze()  # the collector would write to every page that workers share
    server.ready(", ".join(problems))
    server.serve()
    os._exit(0)


def _end_threads_of_libraries() -> None:
    """OpenBLAS ends its threads before a fork and starts them again when they are needed."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    _exit_code(pid)


def _exit_code(pid: int) -> int | None:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # a module that was preloaded ignores SIGCHLD, or waits for all children
        return None
