"""The Popen class of the start method ``"server"``."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
from multiprocessing import connection, popen_fork, resource_tracker, util
from typing import Any

from shmtensor.multiprocessing._by_value import reducer
from shmtensor.multiprocessing._by_value.code_store import code_store
from shmtensor.multiprocessing._pickles import dumps_for_child
from shmtensor.multiprocessing._worker_server.bootstrap import GO, Preparation, inherited
from shmtensor.multiprocessing._worker_server.client import AT_EXIT, client

_EXIT_CODE_SIZE = 8
_UNKNOWN = 255  # the server was killed; the standard library's code for a killed fork server


class _DupFd:
    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        return inherited(self._index)


class Popen(popen_fork.Popen):
    """The Popen of a Process object of the start method ``"server"``.

    Its sentinel is a pidfd: it becomes ready when the worker ends, whatever descriptors the worker's children
    keep open, and also if the server was killed.
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
        reducer.activate()
        code_files = code_store.files()
        standard = [fd for fd in (0, 1, 2) if _is_open(fd)]
        content = self._pickle(process_obj, Preparation(process_obj.name, list(code_files), standard))
        tracker = resource_tracker.getfd()
        assert tracker is not None
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as given:
            message = os.memfd_create("shmtensor-worker", os.MFD_CLOEXEC)
            given.callback(os.close, message)
            _write(message, content)
            status, status_w = socket.socketpair()
            status.settimeout(None)  # a program may have set a default
            kept.enter_context(status)
            given.enter_context(status_w)
            sentinel_r, sentinel = os.pipe()  # readable in the worker when this process ends
            given.callback(os.close, sentinel_r)
            kept.callback(os.close, sentinel)
            own = [message, status_w.fileno(), sentinel_r, tracker]
            self.pid, self.sentinel = client.start_worker([*own, *standard, *code_files.values(), *self._fds])
            kept.callback(os.close, self.sentinel)
            self._status = status
            self.finalizer = util.Finalize(self, kept.pop_all().close, exitpriority=AT_EXIT)
            process_obj._popen = self  # a start that fails from here on kills the worker
            # A worker that does not receive GO exits: if this start fails, the worker has run nothing.
            os.write(sentinel, GO)

    def _pickle(self, process_obj: Any, preparation: Preparation) -> memoryview:
        try:
            return dumps_for_child(self, preparation, process_obj)
        except (TypeError, AttributeError) as error:
            msg = (
                f"the start method 'server' cannot pickle the arguments of {process_obj.name}: {error}; "
                "create such objects in the worker, or choose the start method fork"
            )
            raise pickle.PicklingError(msg) from error

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None:
            timeout = 0 if flag == os.WNOHANG else None
            if not connection.wait([self.sentinel], timeout):
                return None
            # Not consumed: other threads, and forked children that have this object, read it, too.
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
