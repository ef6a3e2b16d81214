"""Functions that several threads run simultaneously."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

DEADLINE = 100.0  # seconds


def run_together(*functions: Callable[[], None]) -> None:
    """Run each function in a thread of its own; raise the first exception of any."""
    barrier = threading.Barrier(len(functions))
    errors: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            barrier.wait(DEADLINE)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,), daemon=True) for function in functions]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # with a GIL, threads switch between most instructions
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
            assert not thread.is_alive(), "a thread does not end"
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]
