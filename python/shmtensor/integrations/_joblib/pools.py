"""Pools of workers, which one call of `Parallel` after another uses.

A call has a pool of its own. The pool of the last call that has ended is kept for the next one with the same
settings, as loky keeps its workers, until it was not used for some time.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from shmtensor._fork import RenewedLock, after_fork_in_child
from shmtensor.integrations._joblib.threads import limit_threads
from shmtensor.multiprocessing.context import default_context
from shmtensor.multiprocessing.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, eq=False)
class Settings:
    """What workers are started with."""

    count: int
    environment: dict[str, str]  # variables to add; they limit the threads of numerical libraries
    initializer: Callable[..., object] | None  # each worker calls it first
    initargs: tuple[Any, ...]

    def equals(self, other: Settings) -> bool:
        """Return True if workers of one may be used for the other; arguments must be the same objects."""
        return (
            self.count == other.count
            and self.environment == other.environment
            and self.initializer == other.initializer
            and list(map(id, self.initargs)) == list(map(id, other.initargs))
        )


class _Idle(NamedTuple):
    settings: Settings
    pool: Pool
    timer: threading.Timer


_lock = RenewedLock(threading.Lock)
_idle: _Idle | None = None
_of_parents: list[_Idle | None] = []  # a forked child must neither use nor delete its parent's pool


def take(settings: Settings) -> Pool:
    """Return the idle pool if it has these settings, else a new one."""
    idle = _take_idle()
    if idle is not None:
        if idle.settings.equals(settings):
            return idle.pool
        end(idle.pool)
    arguments = settings.environment, settings.initializer, settings.initargs
    return Pool(settings.count, _prepare, arguments, context=default_context.get_context("server"))


def give_back(settings: Settings, pool: Pool, seconds: float) -> None:
    """Keep a pool, which is not used any more, for a time; end the one that was kept."""
    global _idle
    timer = threading.Timer(seconds, _expire, (pool,))
    timer.daemon = True
    with _lock():
        before, _idle = _idle, _Idle(settings, pool, timer)
    timer.start()
    if before is not None:
        before.timer.cancel()
        end(before.pool)


def end(pool: Pool) -> None:
    """Terminate the workers, whatever they do."""
    pool.terminate()
    pool.join()
    pool._cache.clear()  # type: ignore[attr-defined]  # results that will not come refer to the pool, and that to its queues


@atexit.register
def close_idle() -> None:
    """End the idle pool."""
    idle = _take_idle()
    if idle is not None:
        end(idle.pool)


def _take_idle() -> _Idle | None:
    global _idle
    with _lock():
        idle, _idle = _idle, None
    if idle is not None:
        idle.timer.cancel()
    return idle


def _expire(pool: Pool) -> None:
    global _idle
    with _lock():
        if _idle is None or _idle.pool is not pool:
            return
        _idle = None
    end(pool)


def _prepare(environment: dict[str, str], initializer: Any, initargs: tuple[Any, ...]) -> None:
    """Set up a worker."""
    # Ctrl-C reaches all processes, and the parent ends its workers. What tasks execute has the default.
    signal.signal(signal.SIGINT, _ignore)
    os.environ.update(environment)
    limit_threads()
    if initializer is not None:
        initializer(*initargs)


def _ignore(_number: int, _frame: Any) -> None:
    pass


@after_fork_in_child
def _after_fork() -> None:
    global _idle
    _of_parents.append(_idle)
    _idle = None
