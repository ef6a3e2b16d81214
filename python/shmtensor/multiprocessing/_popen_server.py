"""Starting a process by the worker server."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
from multiprocessing import connection, context, popen_fork, reduction, resource_tracker, util
from typing import Any

from shmtensor.multiprocessing import _by_value
from shmtensor.multiprocessing._server_client import client
from shmtensor.multiprocessing._server_worker import Preparation, inherited

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
        message = self._pickle(process_obj, Preparation(process_obj.name, list(libraries), standard))
        status, status_w = os.pipe()
        sentinel_r, sentinel = os.pipe()  # by which the worker sees whether this process lives
        tracker = resource_tracker.getfd()
        assert tracker is not None
        try:
            fds = [message, status_w, sentinel_r, tracker, *standard, *libraries.values(), *self._fds]
            self.pid, self.sentinel = client.start_worker(fds)
        except BaseException:
            util.close_fds(status, sentinel)  # type: ignore[attr-defined]
            raise
        finally:
            util.close_fds(message, status_w, sentinel_r)  # type: ignore[attr-defined]
        self._status = status
        self.finalizer = util.Finalize(self, util.close_fds, (status, sentinel, self.sentinel))  # type: ignore[attr-defined]

    def _pickle(self, process_obj: Any, preparation: Preparation) -> int:
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
        file = os.memfd_create("shmtensor-worker", os.MFD_CLOEXEC)
        rest = buffer.getbuffer()
        while rest:
            rest = rest[os.write(file, rest) :]
        return file

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None:
            timeout = 0 if flag == os.WNOHANG else None
            if not connection.wait([self.sentinel], timeout):
                return None
            code = os.read(self._status, _EXIT_CODE_SIZE)
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
