"""Processes that have a primitive when they end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp

__all__ = ["SECONDS", "holder", "kill", "until"]

SECONDS = 60


def _have(take: Callable[[Any], object], primitive: Any, ready: Any) -> None:
    take(primitive)
    ready.set()
    time.sleep(600)


@contextlib.contextmanager
def holder(primitive: Any, take: Callable[[Any], object], method: str = "fork") -> Iterator[Any]:
    """Run a process that has called `take(primitive)` and sleeps."""
    ready = st.Event()
    process: Any = mp.get_context(method).Process(target=_have, args=(take, primitive, ready))
    process.start()
    try:
        assert ready.wait(SECONDS)
        yield process
    finally:
        kill(process)


def kill(process: Any) -> int:
    """Kill a process; return its id."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return int(process.pid)


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def run(method: str, target: Any, *arguments: Any) -> int:
    """Run a function in a process; return its exit code."""
    process: Any = mp.get_context(method).Process(target=target, args=arguments)
    process.start()
    process.join()
    return int(process.exitcode)
