"""`ProcessContext`: the workers of one `spawn`."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

from shmtensor._log import log_warning
from shmtensor.multiprocessing._lifetime.descendants import Descendants
from shmtensor.multiprocessing._pickles import loads_or_release
from shmtensor.multiprocessing._spawn.failure import count_oom_kills, failure_of
from shmtensor.multiprocessing._spawn.monitor import Monitor, Worker
from shmtensor.multiprocessing._spawn.report import Returned

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from shmtensor.multiprocessing.errors import ProcessException

__all__ = ["ProcessContext"]
__dir__ = __all__.copy

_LOGGER = "shmtensor.multiprocessing.spawn"
_TERMINATE_TIMEOUT = 10.0  # seconds between SIGTERM and SIGKILL if there is no grace period
_KILL_TIMEOUT = 5.0  # a process that is blocked in the kernel does not end by SIGKILL


class ProcessContext:
    """The workers that one call of `spawn` has started. Only that function creates contexts.

    Attributes
    ----------
    processes : list
        The workers' Process objects, by rank.
    sentinels : dict
        Maps the sentinel of each worker that has not ended to its rank; for
        `multiprocessing.connection.wait`.
    """

    def __init__(self) -> None:
        self.processes: list[BaseProcess] = []
        self._workers: list[Worker] = []
        self._monitor = Monitor()
        self._failure: ProcessException | None = None
        self._values: list[Any] = []
        self._kills_before = count_oom_kills()

    def _add(self, worker: Worker) -> None:
        self.processes.append(worker.process)
        self._workers.append(worker)
        self._monitor.add(worker)

    @property
    def sentinels(self) -> dict[int, int]:
        """Sentinels of the workers that have not ended, mapped to their ranks."""
        return {worker.process.sentinel: worker.rank for worker in self._monitor.running}

    def pids(self) -> list[int | None]:
        """Return the process ids of the workers, by rank."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all workers have ended, or one has failed.

        When one fails the others are terminated: they have `grace_period` seconds to end by themselves, then
        get SIGTERM, and after the same time again (10 s without a grace period) SIGKILL.

        Parameters
        ----------
        timeout
            Longest time to wait for an end or a failure, in seconds.
        grace_period
            See above; None: SIGTERM is sent immediately.

        Returns
        -------
        bool
            True if all workers succeeded, False if some still ran when the timeout ended.

        Raises
        ------
        ProcessRaisedException
            If the worker that failed first raised an exception.
        ProcessExitedException
            If it ended otherwise: by `sys.exit` with anything but 0, by `os._exit`, by a signal.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._failure is None and self._monitor.running and not self._monitor.failed:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            self._monitor.wait(left)
            if left == 0:
                break
        if self._failure is None and self._monitor.failed:
            self._stop(grace_period)
            self._failure = self._first_failure()
            self._values.clear()  # unreachable now, and a raised failure is part of a reference cycle
        if self._failure is not None:
            raise self._failure
        if self._monitor.running:
            return False
        self._close()
        return True

    def results(self) -> list[Any]:
        """Wait for all workers and return the values of their functions, by rank.

        Tensors in the values were sent as handles.

        Returns
        -------
        list
            One value for each worker; None for one that ended by ``sys.exit(0)``.

        Raises
        ------
        ProcessException
            As `join` does.
        TypeError
            If a value could not be pickled in its worker, or not be unpickled here.
        """
        self.join()
        for worker, value in zip(self._workers, self._values, strict=True):
            if isinstance(value, _NoValue):
                msg = f"rank {worker.rank} returned a value that cannot be sent: {value.problem}"
                raise TypeError(msg)
        return list(self._values)

    def _stop(self, grace_period: float | None = None) -> None:
        """Terminate all workers; each step has a timeout. Further calls do nothing."""
        if self._monitor.closed:
            return
        if grace_period is not None:
            self._monitor.wait_for_all(time.monotonic() + grace_period)
        timeout = _TERMINATE_TIMEOUT if grace_period is None else grace_period
        descendants_by_worker = [Descendants(worker.process.pid or 0) for worker in self._monitor.running]
        for worker in self._monitor.running:
            if worker in self._monitor.failed:
                continue  # it is ending
            log_warning(_LOGGER, "Terminating process %s via signal SIGTERM", worker.process.pid)
            worker.end_by(signal.SIGTERM)
        if not self._monitor.wait_for_all(time.monotonic() + timeout):
            for worker in self._monitor.running.copy():
                log_warning(
                    _LOGGER,
                    "Unable to shutdown process %s via SIGTERM, forcefully exiting via SIGKILL",
                    worker.process.pid,
                )
                worker.end_by(signal.SIGKILL)
            self._monitor.wait_for_all(time.monotonic() + _KILL_TIMEOUT)
        for descendants in descendants_by_worker:
            descendants.kill()
        self._close()

    def _first_failure(self) -> ProcessException:
        kills_now = count_oom_kills()
        kills = 0 if kills_now is None or self._kills_before is None else kills_now - self._kills_before
        first, *others = (failure_of(w, kills) for w in self._monitor.failed if w.failed_by_itself)
        for other in others:
            first.add_note(f"another worker also failed: {other.msg.strip()}")
        return first

    def _close(self) -> None:
        """Load the values and release everything that belongs to the workers. Further calls do nothing."""
        if self._monitor.closed:
            return
        self._values = [_value(worker) for worker in self._workers]
        for worker in self._workers:
            worker.release()
        self._monitor.close()


class _NoValue:
    def __init__(self, problem: str) -> None:
        self.problem = problem


def _value(worker: Worker) -> Any:
    if not isinstance(worker.report, Returned):
        return None
    if worker.report.content is None:
        return _NoValue(worker.report.problem)
    try:
        return loads_or_release(worker.report.content)
    except (Exception, SystemExit) as error:
        return _NoValue(f"{type(error).__name__}: {error}")
