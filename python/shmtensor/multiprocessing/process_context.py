"""The workers of one `spawn`, and waiting for them."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

from shmtensor.multiprocessing._descendants import Descendants
from shmtensor.multiprocessing._explain import explain
from shmtensor.multiprocessing._memory_kills import memory_kills
from shmtensor.multiprocessing._message import loads
from shmtensor.multiprocessing._report import Returned
from shmtensor.multiprocessing._watch import Watch, Worker

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from shmtensor.multiprocessing.failures import ProcessException

__all__ = ["ProcessContext"]

_TERMINATE_PATIENCE = 10.0  # seconds between SIGTERM and SIGKILL where the caller gave none
_KILL_PATIENCE = 5.0  # a process that waits in the kernel does not even end by SIGKILL


def __dir__() -> list[str]:
    return __all__


class ProcessContext:
    """The workers that `start_processes` started; it is what makes these.

    Attributes
    ----------
    processes : list
        The workers' Process objects, by rank.
    sentinels : dict
        For each worker that has not ended, its sentinel and its rank; for
        `multiprocessing.connection.wait`.
    """

    def __init__(self) -> None:
        self.processes: list[BaseProcess] = []
        self._workers: list[Worker] = []
        self._watch = Watch()
        self._failure: ProcessException | None = None
        self._values: list[Any] = []
        self._kills_before = memory_kills()

    def _add(self, worker: Worker) -> None:
        self.processes.append(worker.process)
        self._workers.append(worker)
        self._watch.add(worker)

    @property
    def sentinels(self) -> dict[int, int]:
        """Sentinels of the workers that have not ended, with their ranks."""
        return {worker.process.sentinel: worker.rank for worker in self._watch.running}

    def pids(self) -> list[int | None]:
        """Return the process ids of the workers, by rank."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all workers have ended, or one has failed.

        When one fails the others are ended: they get `grace_period` seconds to end by themselves, then
        SIGTERM and the same time again (10 s if no grace period is given), then SIGKILL.

        Parameters
        ----------
        timeout
            Longest time to wait for an end or a failure, in seconds.
        grace_period
            See above; None: SIGTERM at once.

        Returns
        -------
        bool
            True if all have ended well, False if some still ran at the end of `timeout`.

        Raises
        ------
        ProcessRaisedException
            If the worker that failed first raised an exception.
        ProcessExitedException
            If it ended in another way without returning: by `sys.exit` with anything but 0, by
            `os._exit`, by a signal.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._failure is None and self._watch.running and not self._watch.failed:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            self._watch.wait(left)
            if left == 0:
                break
        if self._failure is None and self._watch.failed:
            self._stop(grace_period)
            self._failure = self._tell_failure()
            self._values.clear()  # nobody gets them, and a failure that was raised is part of a cycle
        if self._failure is not None:
            raise self._failure
        if self._watch.running:
            return False
        self._close()
        return True

    def results(self) -> list[Any]:
        """Wait for all workers and return what their functions returned, by rank.

        Tensors in it were sent as handles.

        Returns
        -------
        list
            One value for each worker; None for one that ended by ``sys.exit(0)``.

        Raises
        ------
        ProcessException
            As `join` does.
        TypeError
            If a value could not be pickled, or not be unpickled here.
        """
        self.join()
        for worker, value in zip(self._workers, self._values, strict=True):
            if isinstance(value, _NoValue):
                msg = f"the function of rank {worker.rank} returned what cannot be sent: {value.problem}"
                raise TypeError(msg)
        return list(self._values)

    def _stop(self, grace_period: float | None = None) -> None:
        """End all workers, each step bounded in time; once."""
        if self._watch.closed:
            return
        from logging import getLogger

        log = getLogger("shmtensor.multiprocessing.spawn")
        if grace_period is not None:
            self._watch.wait_for_all(time.monotonic() + grace_period)
        patience = _TERMINATE_PATIENCE if grace_period is None else grace_period
        started_by_them = [Descendants(worker.process.pid or 0) for worker in self._watch.running]
        for worker in self._watch.running:
            if worker in self._watch.failed:
                continue  # it is on its way out
            log.warning("Terminating process %s via signal SIGTERM", worker.process.pid)
            worker.end_by(signal.SIGTERM)
        if not self._watch.wait_for_all(time.monotonic() + patience):
            for worker in self._watch.running.copy():
                log.warning(
                    "Unable to shutdown process %s via SIGTERM, forcefully exiting via SIGKILL",
                    worker.process.pid,
                )
                worker.end_by(signal.SIGKILL)
            self._watch.wait_for_all(time.monotonic() + _KILL_PATIENCE)
        for descendants in started_by_them:
            descendants.kill()
        self._close()

    def _tell_failure(self) -> ProcessException:
        kills_now = memory_kills()
        kills = 0 if kills_now is None or self._kills_before is None else kills_now - self._kills_before
        first, *others = (explain(w, kills) for w in self._watch.failed if w.failed_by_itself)
        for other in others:
            first.add_note(f"another worker failed too: {other.msg.strip()}")
        return first

    def _close(self) -> None:
        """Take in the values, and close everything that was open for these workers; once."""
        if self._watch.closed:
            return
        self._values = [_value(worker) for worker in self._workers]
        for worker in self._workers:
            worker.release()
        self._watch.close()


class _NoValue:
    def __init__(self, problem: str) -> None:
        self.problem = problem


def _value(worker: Worker) -> Any:
    if not isinstance(worker.report, Returned):
        return None
    if worker.report.content is None:
        return _NoValue(worker.report.problem)
    try:
        return loads(worker.report.content)
    except Exception as error:
        return _NoValue(f"{type(error).__name__}: {error}")
