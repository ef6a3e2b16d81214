"""Starting a process by the worker server."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import socket
from multiprocessing import connection, context, popen_fork, reduction, resource_tracker, util
from typing import Any

from shmtensor.multiprocessing import _by_value
from shmtensor.multiprocessing._server_client import client
from shmtensor.multiprocessing._server_worker import GO, Preparation, inherited

__all__ = ["Popen"]

_EXIT_CODE_SIZE = 8
_UNKNOWN = 255  # as for the standard library's server: it was killed, and nobody can tell


class _DupFd:
    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        return inherited(self._index)


class Popen(popen_fork.Popen):
    """What a Process object of the start method server starts itself with.

    Its sentinel is a pidfd, which tells of the end whatever the worker's children have open and also when
    the server was killed.
    """

    method = "server"
    DupFd = _DupFd

    def __init__(self, process_obj: Any) -> None:
        self._fds: list[int] = []
        super().__init__(process_obj)

    def duplicate_for_child(self, fd: int) -> int:
        self._fds.append(fd)
        return len(self._fds) - 1

    def _launch(self, process_obj: Any) -> None:
        _by_value.activate()
        libraries = _by_value.library.files()
        standard = [fd for fd in (1, 2) if _is_open(fd)]
        content = self._pickle(process_obj, Preparation(process_obj.name, list(libraries), standard))
        tracker = resource_tracker.getfd()
        assert tracker is not None
        with contextlib.ExitStack() as kept:
            with contextlib.ExitStack() as given:
                message = os.memfd_create("shmtensor-worker", os.MFD_CLOEXEC)
                given.callback(os.close, message)
                _write(message, content)
                status, status_w = socket.socketpair()
                status.settimeout(None)  # a program may have set a default
                kept.enter_context(status)
                given.enter_context(status_w)
                sentinel_r, sentinel = os.pipe()  # by which the worker sees whether this process lives
                given.callback(os.close, sentinel_r)
                kept.callback(os.close, sentinel)
                own = [message, status_w.fileno(), sentinel_r, tracker]
                self.pid, self.sentinel = client.start_worker(
                    [*own, *standard, *libraries.values(), *self._fds]
                )
                kept.callback(os.close, self.sentinel)
                # A worker that is not told to go ends: where this start fails, nothing has begun.
                os.write(sentinel, GO)
            self._status = status
            self.finalizer = util.Finalize(self, kept.pop_all().close)

    def _pickle(self, process_obj: Any, preparation: Preparation) -> memoryview:
        buffer = io.BytesIO()
        spawning: Any = self
        context.set_spawning_popen(spawning)
        try:
            reduction.dump(preparation, buffer)
            reduction.dump(process_obj, buffer)
        except (TypeError, AttributeError) as error:
            msg = (
                f"the start method 'server' cannot pickle the arguments of {process_obj.name}: {error}; "
                "make that in the worker, or choose the start method fork"
            )
            raise pickle.PicklingError(msg) from error
        finally:
            context.set_spawning_popen(None)
        return buffer.getbuffer()

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None:
            timeout = 0 if flag == os.WNOHANG else None
            if not connection.wait([self.sentinel], timeout):
                return None
            # It stays to be read: other threads, and forked children that know this worker, ask too.
            code = self._status.recv(_EXIT_CODE_SIZE, socket.MSG_PEEK)
            self.returncode = int.from_bytes(code, "little", signed=True) if code else _UNKNOWN
        return self.returncode

    def _send_signal(self, sig: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.sentinel, sig)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _write(file: int, content: memoryview) -> None:
    while content:
        content = content[os.write(file, content) :]
