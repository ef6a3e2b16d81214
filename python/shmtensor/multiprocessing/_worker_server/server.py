"""The worker server: a process that has imported what workers need, and forks them on request.

It is started by exec, has one thread, and never imports the program's main module. One message requests one
worker and contains the descriptors that it inherits; the reply contains its pid and a pidfd. The exit code is
written to a descriptor of the request. The server ends when its client and all workers have ended.
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

from shmtensor.multiprocessing._lifetime.native_threads import end_threads_of_libraries
from shmtensor.multiprocessing._worker_server import bootstrap
from shmtensor.multiprocessing._worker_server.client import REPLY
from shmtensor.multiprocessing.start_method import cuda_is_initialised

EXIT_CODE = struct.Struct("<q")
ALWAYS = (
    *("cloudpickle", "concurrent.futures.process", "multiprocessing.synchronize", "numpy", "numpy.random"),
    *("shmtensor._array_reducers", "shmtensor.creation"),
    *("shmtensor.multiprocessing.pool", "shmtensor.multiprocessing._worker_server.popen"),
)


class Server:
    """The loop that answers requests and waits for workers. Threads: one."""

    def __init__(self, fd: int) -> None:
        self._client = socket.socket(fileno=fd)
        self._poll = select.epoll()
        self._poll.register(fd, select.EPOLLIN)
        self._workers: dict[int, tuple[int, int]] = {}  # pidfd: pid, descriptor for the exit code
        self._client_lives = True

    def serve(self) -> None:
        """Answer requests until the client and all workers have ended."""
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
            self._workers[pidfd] = pid, fds.pop(1)  # for the exit code
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
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client has ended
            socket.send_fds(self._client, [message], fds)

    def _reap(self, pidfd: int) -> None:
        pid, status = self._workers.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        code = _exit_code(pid)
        with contextlib.suppress(BrokenPipeError):  # the client has ended
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
            bootstrap.run(fds)
        finally:
            os._exit(1)  # a worker must never return into the server's loop


def main(fd: int, names: tuple[str, ...]) -> None:
    """Run the server; `fd` is its connection to the client."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the program and its workers
    bootstrap.remember(signal.SIGINT, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by the client until now
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # some launchers ignore it, and waitpid would then fail
    server = Server(fd)
    problems = []
    for name in (*ALWAYS, *names):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: PERF203
            if name != "cloudpickle":  # needed only to send by value
                problems.append(f"{name} ({type(error).__name__}: {error})")
    if cuda_is_initialised():
        sys.exit("a preloaded module initialised CUDA, which the worker server must not: " + ", ".join(names))
    end_threads_of_libraries()
    gc.collect()
    gc.freeze()  # the collector would write to every page shared with workers
    server.ready(", ".join(problems))
    server.serve()
    os._exit(0)


def _exit_code(pid: int) -> int | None:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # a preloaded module ignores SIGCHLD, or waits for all children
        return None
