"""Barrier: threads wait for each other, and a killed one breaks it."""

from __future__ import annotations

from threading import BrokenBarrierError
from typing import TYPE_CHECKING, Any, SupportsIndex

import shmtensor._core as _core
from shmtensor._by_handle import SentByHandle
from shmtensor._sync.departure import disown_at_exit
from shmtensor._values import check_integer

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_PARTIES = 65_535


class Barrier(SentByHandle, _core.BarrierBase):
    """A barrier in shared memory, with the methods of `multiprocessing.Barrier`.

    It travels as a `Lock` does, with its action. A process takes part from its first `wait` on. If it is
    killed, the barrier is broken: all that wait, and will wait, get `threading.BrokenBarrierError`, which
    names the process, until `reset`. A process that exits leaves the barrier, and breaks nothing.

    Parameters
    ----------
    parties
        How many threads end a round, from 1 to 65,535.
    action
        Called by the last thread of a round before the others go on. If it raises, the barrier is broken.
    timeout
        Seconds that `wait` waits until all have arrived, unless it is given others; then the barrier is
        broken. None: no limit.
    """

    __slots__ = ("_action", "_timeout")

    def __init__(
        self,
        parties: SupportsIndex,
        action: Callable[[], object] | None = None,
        timeout: float | None = None,
    ) -> None:
        number = check_integer("parties", parties, 1, _MOST_PARTIES)
        self._open(_core.new_barrier_storage(number), action, timeout)

    def _open(self, storage: Any, action: Callable[[], object] | None, timeout: float | None) -> None:  # type: ignore[override]
        super()._open(storage)
        self._action, self._timeout = action, timeout
        disown_at_exit(self)

    def __getstate__(self) -> Any:
        return self._storage, self._action, self._timeout

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all have arrived.

        Returns
        -------
        int
            How many threads of the round came before, so one of them gets 0.

        Raises
        ------
        BrokenBarrierError
            If the barrier is broken, or was reset, meanwhile or before.
        """
        index = self._wait(self._action, self._timeout if timeout is None else timeout)
        if index is None:
            pid = self.broken and self._dead_pid
            raise BrokenBarrierError(f"process {pid}, which took part, was killed" if pid else "")
        return index

    def __repr__(self) -> str:
        state = "broken" if self.broken else f"{self.n_waiting}/{self.parties} waiting"
        return f"<{type(self).__name__}: {state}>"
