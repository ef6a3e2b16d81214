"""Which task each worker runs, in shared memory: a task is stopped, or it is not, but no other one is.

A worker marks its task as running before it looks whether the task was cancelled, and as finished before it
sends the answer. The pool's process stops a task by changing its mark from running to stopped; then it kills
the worker. Each change is one atomic step, so one of the two succeeds: a task that was stopped has no answer,
and a worker that is killed has begun no other task.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import shmtensor._core as _core
from shmtensor.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_WORKERS = 1024  # that a session has at the same time
_CANCELLED_TASKS = 4096  # of more that wait, some may run

# The first words of each kind, of which each worker has one.
_CLAIMED, _PROGRESS, _MARK, _BEGUN, _PRIVATE, _CANCELLED = (_MOST_WORKERS * kind for kind in range(6))
BYTES = (_CANCELLED + _CANCELLED_TASKS) * 8
TIMED, MEASURED = 1, 2  # tasks with a limit; MEASURED: of memory, perhaps also of time
_FINISHED, _STOPPED = 1 << 62, 1 << 63  # in marks, with the position of the task plus 1

_PAGE = os.sysconf("SC_PAGESIZE")


class Running:
    """The words of a pool.

    Parameters
    ----------
    block
        Their memory; None: new memory, in the pool's process.
    """

    def __init__(self, block: Storage | None = None) -> None:
        self.block = block or Storage(BYTES)
        self._words = memoryview(self.block).cast("Q")
        if block is None:
            self._words[:] = memoryview(bytes(self.block.nbytes)).cast("Q")

    # --- for a worker ---

    def set_progress(self, rank: int, progress: int) -> None:
        """Note how far the start of a worker is."""
        self._words[_PROGRESS + rank] = progress

    def claimed_by(self, rank: int) -> int:
        """Return the position plus 1 that the queue has written before the worker took its task."""
        return self._words[_CLAIMED + rank]

    def begin(self, rank: int, position: int, limits: int) -> bool:
        """Mark a task as running; return False if it was cancelled. `limits` is 0, TIMED or MEASURED."""
        if limits != 0:
            self._words[_PRIVATE + rank] = private_bytes("self") if limits == MEASURED else 0
            self._words[_BEGUN + rank] = time.monotonic_ns()
        _core.note_task(self.block, True)
        _core.exchange_word(self.block, _MARK + rank, position + 1)
        return self._words[_CANCELLED + position % _CANCELLED_TASKS] != position + 1

    def finish(self, rank: int, position: int) -> None:
        """Mark a task as finished. If it was stopped, this process ends: the pool is about to kill it."""
        running = position + 1
        _core.note_task(self.block, False)
        if not _core.compare_exchange_word(self.block, _MARK + rank, running, running | _FINISHED):
            os.kill(os.getpid(), signal.SIGKILL)

    # --- for the pool's process ---

    def add_worker(self, rank: int) -> None:
        """Clear the words of a worker that is about to be started."""
        self._words[_PROGRESS + rank] = self._words[_MARK + rank] = 0

    def progress(self) -> list[int]:
        """Return how far the start of each worker is."""
        return self._words[_PROGRESS:_MARK].tolist()

    def claims(self) -> list[int]:
        """Return the position plus 1 of the task that each worker has taken, or was about to take."""
        return self._words[:_PROGRESS].tolist()

    def clear_claim(self, rank: int) -> None:
        """Clear the claim of a worker that has ended."""
        self._words[_CLAIMED + rank] = 0

    def tasks(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield rank and position of each running task, the time of its begin, and the private bytes then."""
        for rank, mark in enumerate(self._words[_MARK:_BEGUN].tolist()):
            if 0 < mark < _FINISHED:
                begun = self._words[_BEGUN + rank] * 1e-9
                yield rank, mark - 1, begun, self._words[_PRIVATE + rank]

    def stop(self, rank: int, position: int) -> bool:
        """Return True if the task was running, and no answer of it will come. Its worker is to be killed."""
        return _core.compare_exchange_word(self.block, _MARK + rank, position + 1, (position + 1) | _STOPPED)

    def cancel(self, position: int) -> None:
        """Let no worker begin the task from now on."""
        _core.exchange_word(self.block, _CANCELLED + position % _CANCELLED_TASKS, position + 1)

    def forget(self, position: int) -> None:
        """Let another task have the position: the queue did not get this one."""
        _core.compare_exchange_word(self.block, _CANCELLED + position % _CANCELLED_TASKS, position + 1, 0)

    def rank_of(self, position: int) -> int | None:
        """Return the rank of the worker that runs the task, None if none does."""
        marks = self._words[_MARK:_BEGUN].tolist()
        return marks.index(position + 1) if position + 1 in marks else None

    def is_finished(self, position: int) -> bool:
        """Return True if a worker has finished the task and has begun no other one."""
        return (position + 1) | _FINISHED in self._words[_MARK:_BEGUN].tolist()


def private_bytes(pid: int | str) -> int:
    """Return the bytes of a process's memory that are in no file and not shared; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * _PAGE
