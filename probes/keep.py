"""Results that survive an interrupted program, and waits with a time limit."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def keep(path: Path | None, found: dict[str, Any]) -> None:
    """Write a result to a file, which is replaced atomically."""
    if path is not None:
        new = path.with_name(f"{path.name}.new")
        new.write_text(json.dumps(found, indent=2, default=str) + "\n")
        new.replace(path)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the main thread, also out of a wait for a pipe, if the body takes longer."""

    def ring(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"it took longer than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
