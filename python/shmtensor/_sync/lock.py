"""Lock and RLock: locks that a killed process gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import shmtensor._core as _core
from shmtensor._by_handle import SentByHandle
from shmtensor._log import log_event
from shmtensor._sync.kept import keep
from shmtensor._tasks import wait_in_thread
from shmtensor.errors import OwnerDied

if TYPE_CHECKING:
    from typing_extensions import Self

OnDeath = Literal["raise", "pass"]


class _Lock(SentByHandle):
    """What both locks have in common."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def _is_silent(self) -> bool: ...
        def locked(self) -> bool: ...
        def _must_be_kept(self) -> bool: ...

    def __init__(self, *, on_death: OnDeath = "raise") -> None:
        if on_death not in {"raise", "pass"}:
            msg = f"on_death must be 'raise' or 'pass', not {on_death!r}"
            raise ValueError(msg)
        super().__init__(_core.new_lock_storage(on_death == "pass"))  # type: ignore[call-arg]

    @property
    def on_death(self) -> OnDeath:
        """What the next owner gets if the last one died: "raise" or "pass"."""
        return "pass" if self._is_silent else "raise"

    def _owner_died(self, pid: int, seconds: float) -> None:
        """Raise, or log; the extension calls this for the owner after one that died."""
        if not self._is_silent:
            raise OwnerDied(pid, seconds)  # in no variable of this frame, which would be a cycle
        log_event(str(OwnerDied(pid, seconds)))

    __del__ = keep

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'locked' if self.locked() else 'unlocked'}>"


class Lock(_Lock, _core.LockBase):
    """A lock in shared memory, with the methods of `multiprocessing.Lock` and `threading.Lock`.

    It travels through any queue or pipe, as an argument of a process, and by `publish` and `attach`. It takes
    64 bytes of shared memory, and has no name, descriptor or thread. Any process or thread may release it.

    If its owner is killed, or exits, the lock is given back within milliseconds, and the next owner gets
    `OwnerDied`, once. A stopped process is alive, and keeps it.

    ====================  ==============================================================================
    `acquire` raises it   The caller has the lock: it repairs what the lock protects, then releases it.
    ``with`` raises it    The block does not run, and the lock was released again.
    ====================  ==============================================================================

    Parameters
    ----------
    on_death
        "raise": as above. "pass": the next owner gets the lock as if it had been released, and a line is
        logged.

    Examples
    --------
    >>> import shmtensor as st
    >>> lock = st.Lock()
    >>> with lock:
    ...     pass
    >>> try:
    ...     _ = lock.acquire()
    ... except st.OwnerDied:
    ...     ...  # repair
    >>> lock.release()
    """

    __slots__ = ()

    async def aacquire(self) -> Literal[True]:
        """Lock; the event loop runs other tasks until this process has the lock.

        A task that is cancelled, or reaches a timeout, does not have it. A thread waits for it.

        Raises
        ------
        OwnerDied
            As `acquire` does.
        """
        if not self.acquire(block=False):
            await wait_in_thread(self._acquire_for_task, self.release)
            self._take_over()
        return True

    async def __aenter__(self) -> Self:
        try:
            await self.aacquire()
        except OwnerDied:
            self.release()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()


class RLock(_Lock, _core.RLockBase):
    """As `Lock`; the thread that has it can acquire it again, and no other one can release it.

    A thread that ends with the lock gives it back, too.
    """

    __slots__ = ()
