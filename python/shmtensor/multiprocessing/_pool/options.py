"""What a call of a pool's method asks for besides the call: limits, retries, progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from shmtensor._progress import ProgressLine
from shmtensor._values import check_integer, check_number
from shmtensor.multiprocessing._pool.callbacks import reporting
from shmtensor.multiprocessing._pool.naming import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

_REPORTS = 100  # of the progress of a map
_MEASURE_EVERY = 0.01  # seconds, while there is a task with a limit of memory


class TaskOptions(TypedDict, total=False):
    """The keyword arguments of the methods that run tasks; `Pool` describes them."""

    timeout: float | None
    max_bytes: int | None
    retries: int
    progress: bool | Callable[[int, int | None], object]


class Options(NamedTuple):
    """Seconds and bytes of private memory that a task may take, None: any; and the rest of `TaskOptions`."""

    timeout: float | None = None
    max_bytes: int | None = None
    retries: int = 0
    progress: Progress | None = None

    @property
    def has_limit(self) -> bool:
        return self.timeout is not None or self.max_bytes is not None

    def chunksize(self, items: int) -> int:
        """Return how many items are one task, at most, unless the program gives a number."""
        return 1 if self.has_limit or self.retries else -(-items // _REPORTS)

    @property
    def interval(self) -> float:
        """After so many seconds at the earliest, a task that has not begun yet is above the limit."""
        interval = float("inf") if self.timeout is None else self.timeout
        return interval if self.max_bytes is None else min(interval, _MEASURE_EVERY)


NO_OPTIONS = Options()


class WithOptions(NamedTuple):
    """A function of tasks with options; it stays in the pool's process."""

    function: Any
    options: Options


def with_options(function: Any, given: TaskOptions) -> Any:
    """Return the function with its options if there are any.

    Raises
    ------
    TypeError
        If no option has a name that is given, or a limit is not a number.
    ValueError
        If a limit is not above 0, or `retries` is below.
    """
    if not given:
        return function
    shown = given.get("progress")
    progress = Progress(shown, name_of(function)) if shown else None
    values: dict[str, Any] = {**given, "progress": progress}
    options = Options(**values)
    for name, value in (("timeout", options.timeout), ("max_bytes", options.max_bytes)):
        if value is not None and not check_number(name, value) > 0:
            msg = f"{name} must be above 0, not {value!r}"
            raise ValueError(msg)
    check_integer("retries", options.retries, 0)
    return WithOptions(function, options) if options != NO_OPTIONS else function


class Progress:
    """How many calls of a job have a result. One thread at a time adds to it.

    Parameters
    ----------
    shown
        Called with this number and that of all calls, None if it is not known; True: they are printed.
    name
        The name of the function.
    """

    def __init__(self, shown: bool | Callable[[int, int | None], object], name: str) -> None:
        self.total: int | None = None
        self._done = 0
        self._report = reporting(shown if callable(shown) else self._print)
        self._line = ProgressLine(not callable(shown), name, "{} calls")

    def add(self, calls: int) -> None:
        """Report that so many more calls have a result."""
        self._done += calls
        self._report(self._done, self.total)

    def _print(self, done: int, total: int | None) -> None:
        report = self._line.end if done == total else self._line.at
        report(f"{done:,}" if total is None else f"{done:,} of {total:,}")
