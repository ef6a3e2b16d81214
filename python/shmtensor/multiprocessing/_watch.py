"""Waiting for workers, in the order in which things happened to them.

The kernel lists what is ready on an epoll descriptor in the order in which it became ready. So the first
worker that failed is known also when nobody looked at that time, and whether it told why or was killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Any

from shmtensor.multiprocessing._parent_only import keep_from_children, no_fork
from shmtensor.multiprocessing._report import Exited, Raised, Report, ReportPipe, Returned

__all__ = ["Watch", "Worker"]

_LOOK_AGAIN = 0.005
# In seconds: another thread of this process that has waited for a child is about to write its exit code down.
_PATIENCE = 0.1
_UNKNOWN = 255  # as the standard library has it where a fork server was killed


class Worker:
    """One worker as its parent sees it."""

    def __init__(self, rank: int, process: Any, pipe: ReportPipe) -> None:
        self.rank = rank
        self.process = process
        self.pipe = pipe
        self.report: Report | None = None
        self.code_was_taken = False  # by what waits for any child, or the kernel where SIGCHLD is ignored
        self._gone_since: float | None = None
        self._told_to_end: float | None = None
        self._had_failed = False  # when it was told to
        self._signals: list[int] = []

    @property
    def exitcode(self) -> int | None:
        code: int | None = self.process.exitcode
        return code

    def has_ended(self) -> bool:
        """Has it? If something else took its exit code, its report decides what that is."""
        if self.exitcode is None and self._is_gone():
            now = time.monotonic()
            if self._gone_since is None:
                self._gone_since = now
            elif now - self._gone_since > _PATIENCE:
                self.code_was_taken = True
                self.process._popen.returncode = _told_code(self.report)
        return self.exitcode is not None

    def _is_gone(self) -> bool:
        try:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False

    def release(self) -> None:
        """Close what was open for it, take back what it did not load, and end it if it lives."""
        self.pipe.close()
        self.process._lifeline.cut()
        self.process._message = None

    @property
    def _told_failure(self) -> Raised | Exited | None:
        if isinstance(self.report, Exited) and self.report.code not in {None, 0}:
            return self.report
        return self.report if isinstance(self.report, Raised) else None

    @property
    def failed(self) -> bool:
        """True if the worker is known to have failed."""
        if self._told_failure is not None:
            return True
        if self.exitcode is None:
            return self.report is None and self.pipe.ended
        return self.exitcode != 0 or self.report is None

    def end_by(self, number: signal.Signals) -> None:
        """Send it a signal because of another worker's failure, if it has not ended by itself."""
        if self.exitcode is not None:
            return
        if self._told_to_end is None:
            self._told_to_end = time.monotonic()
            self._had_failed = self.failed
        self._signals.append(-number)
        (self.process.kill if number is signal.SIGKILL else self.process.terminate)()

    @property
    def lived_on(self) -> bool:
        """True if the worker had closed its pipe without a report, but ended only by a signal."""
        return self._had_failed and self.report is None and self.exitcode in self._signals

    @property
    def failed_by_itself(self) -> bool:
        """True if the worker failed for another reason than a signal to end it."""
        if self._told_to_end is None or self._had_failed or not self.failed:
            return self.failed
        if self._told_failure is not None:
            return self._told_failure.time < self._told_to_end
        return not self.code_was_taken and self.exitcode not in self._signals


class Watch:
    """All workers of one start."""

    def __init__(self) -> None:
        with no_fork():
            self._epoll = select.epoll()
            keep_from_children(self)
        self._by_fd: dict[int, Worker] = {}
        self._ending: list[Worker] = []  # the sentinel says so, the exit code is not there yet
        self.running: list[Worker] = []
        self._ended: list[Worker] = []  # in order of time: told how, or closed what a process has open

    @property
    def failed(self) -> list[Worker]:
        """Those known to have failed, in order of time."""
        return [worker for worker in self._ended if worker.failed]

    def add(self, worker: Worker) -> None:
        for fd in (worker.pipe.reader, worker.process.sentinel):
            self._by_fd[fd] = worker
            self._epoll.register(fd, select.EPOLLIN)
        self.running.append(worker)

    def wait(self, timeout: float | None) -> None:
        """Wait until something has happened to a worker, and take it in."""
        if self._ending:
            timeout = _LOOK_AGAIN if timeout is None else min(timeout, _LOOK_AGAIN)
        for fd, _ in self._epoll.poll(timeout):
            worker = self._by_fd[fd]
            if worker.report is None:
                worker.report = worker.pipe.read()
            if fd == worker.pipe.reader:
                if worker.report is None and not worker.pipe.ended:
                    continue  # a long report comes in pieces
            else:
                self._ending.append(worker)
            self._forget(fd)
            if worker not in self._ended:
                self._ended.append(worker)
        for worker in self._ending.copy():
            if worker.has_ended():
                self._ending.remove(worker)
                self.running.remove(worker)
                if worker.pipe.reader in self._by_fd:
                    self._forget(worker.pipe.reader)
                worker.process.join()

    def wait_for_all(self, deadline: float) -> bool:
        """Wait until every worker has ended; False at the deadline."""
        while self.running:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.wait(left)
        return True

    def _forget(self, fd: int) -> None:
        del self._by_fd[fd]
        self._epoll.unregister(fd)

    def forget_in_child(self) -> None:
        self._epoll.close()

    @property
    def closed(self) -> bool:
        return self._epoll.closed

    def close(self) -> None:
        """Watch no more."""
        self._epoll.close()


def _told_code(report: Report | None) -> int:
    if isinstance(report, Exited):
        return report.code if isinstance(report.code, int) else int(report.code is not None)
    return {Returned: 0, Raised: 1}.get(type(report), _UNKNOWN)


def signal_name(exitcode: int) -> str | None:
    """Return the name of the signal that ended a process, None if it was none."""
    if exitcode >= 0:
        return None
    with contextlib.suppress(ValueError):
        return signal.Signals(-exitcode).name
    return f"signal {-exitcode}"


__all__ += ["Returned", "signal_name"]
