"""Waiting for the reports and exits of workers, in the order in which they occurred.

The kernel returns the ready descriptors of an epoll instance in the order in which they became ready. The
first worker that failed is therefore known even if the parent waits only later.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any

from shmtensor._fork import no_fork, reset_in_forked_children
from shmtensor.multiprocessing._spawn.report import Exited, Raised, Report, ReportPipe, Returned

_POLL_INTERVAL = 0.005  # in seconds
# In seconds: another thread of this process may have waited for a child, and be about to store its exit code.
_EXIT_CODE_TIMEOUT = 0.1
_UNKNOWN = 255  # the standard library's exit code where a fork server was killed


class Worker:
    """The state of one worker, in its parent."""

    def __init__(self, rank: int, process: Any, pipe: ReportPipe) -> None:
        self.rank = rank
        self.process = process
        self.pipe = pipe
        self.report: Report | None = None
        self.exit_code_lost = False  # to code that waits for any child, or since SIGCHLD is ignored
        self._gone_since: float | None = None
        self._first_signal_time: float | None = None
        self._had_failed = False  # before the first signal
        self._signals: list[int] = []

    @property
    def exitcode(self) -> int | None:
        code: int | None = self.process.exitcode
        return code

    def has_ended(self) -> bool:
        """Return True if it has ended. If its exit code was lost, its report replaces it."""
        if self.exitcode is None and self._is_gone():
            now = time.monotonic()
            if self._gone_since is None:
                self._gone_since = now
            elif now - self._gone_since > _EXIT_CODE_TIMEOUT:
                self.exit_code_lost = True
                self.process._popen.returncode = _exit_code_of(self.report)
        return self.exitcode is not None

    def _is_gone(self) -> bool:
        try:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False

    def release(self) -> None:
        """Close its pipes, which ends it if it lives, and cancel what it did not load."""
        self.pipe.close()
        self.process._parent_death.close()
        self.process._message = None

    @property
    def _reported_failure(self) -> Raised | Exited | None:
        if isinstance(self.report, Exited) and self.report.code not in {None, 0}:
            return self.report
        return self.report if isinstance(self.report, Raised) else None

    @property
    def failed(self) -> bool:
        """Return True if it is known to have failed."""
        if self._reported_failure is not None:
            return True
        if self.exitcode is None:
            return self.report is None and self.pipe.ended
        return self.exitcode != 0 or self.report is None

    def end_by(self, number: signal.Signals) -> None:
        """Send it a signal because of another worker's failure, unless it has ended."""
        if self.exitcode is not None:
            return
        if self._first_signal_time is None:
            self._first_signal_time = time.monotonic()
            self._had_failed = self.failed
        self._signals.append(-number)
        (self.process.kill if number is signal.SIGKILL else self.process.terminate)()

    @property
    def closed_pipe_and_ran_on(self) -> bool:
        """Return True if it closed its pipe without a report, and ended only by a signal from the parent."""
        return self._had_failed and self.report is None and self.exitcode in self._signals

    @property
    def failed_by_itself(self) -> bool:
        """Return True if it failed, and not only because of a signal from the parent."""
        if self._first_signal_time is None or self._had_failed or not self.failed:
            return self.failed
        if self._reported_failure is not None:
            return self._reported_failure.time < self._first_signal_time
        return not self.exit_code_lost and self.exitcode not in self._signals


class Monitor:
    """All workers of one start."""

    def __init__(self) -> None:
        with no_fork():
            self._epoll = select.epoll()
            reset_in_forked_children(self)
        self._by_fd: dict[int, Worker] = {}
        self._ending: list[Worker] = []  # the sentinel is ready, the exit code is not known yet
        self.running: list[Worker] = []
        self._ended: list[Worker] = []  # in order of time: reported, or closed its descriptors

    @property
    def failed(self) -> list[Worker]:
        """The workers known to have failed, in order of time."""
        return [worker for worker in self._ended if worker.failed]

    def add(self, worker: Worker) -> None:
        for fd in (worker.pipe.reader, worker.process.sentinel):
            self._by_fd[fd] = worker
            self._epoll.register(fd, select.EPOLLIN)
        self.running.append(worker)

    def wait(self, timeout: float | None) -> None:
        """Wait for the next report or exit, and record it."""
        if self._ending:
            timeout = _POLL_INTERVAL if timeout is None else min(timeout, _POLL_INTERVAL)
        for fd, _ in self._epoll.poll(timeout):
            worker = self._by_fd[fd]
            if worker.report is None:
                worker.report = worker.pipe.read()
            if fd == worker.pipe.reader:
                if worker.report is None and not worker.pipe.ended:
                    continue  # a long report arrives in several reads
            else:
                self._ending.append(worker)
            self._unregister(fd)
            if worker not in self._ended:
                self._ended.append(worker)
        for worker in self._ending.copy():
            if worker.has_ended():
                self._ending.remove(worker)
                self.running.remove(worker)
                if worker.pipe.reader in self._by_fd:
                    self._unregister(worker.pipe.reader)
                worker.process.join()

    def wait_for_all(self, deadline: float) -> bool:
        """Wait until every worker has ended; return False at the deadline."""
        while self.running:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.wait(left)
        return True

    def _unregister(self, fd: int) -> None:
        del self._by_fd[fd]
        self._epoll.unregister(fd)

    def reset_in_child(self) -> None:
        self._epoll.close()

    @property
    def closed(self) -> bool:
        return self._epoll.closed

    def close(self) -> None:
        """Close the epoll instance."""
        self._epoll.close()


def _exit_code_of(report: Report | None) -> int:
    if isinstance(report, Exited):
        return report.code if isinstance(report.code, int) else int(report.code is not None)
    return {Returned: 0, Raised: 1}.get(type(report), _UNKNOWN)
