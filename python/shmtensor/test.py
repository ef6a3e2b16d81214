"""Check an installation: `python -m shmtensor.test` takes a few seconds and needs nothing but the package.

It sends tensors between processes by each start method, kills a process that has sent one, and waits until
all memory is free. It prints a line for each check. The exit status is 0 if all succeed, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import shmtensor as st
import shmtensor.multiprocessing as mp

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

_METHODS = ("fork", "spawn", "forkserver", "server")
_SECONDS = 60.0  # for each wait


def _double(tensors: Any, answers: Any) -> None:
    tensor = tensors.get(timeout=_SECONDS)
    tensor *= 2
    answers.put(st.full(1000, 3))


def _send_and_wait(tensors: Any, answers: Any) -> None:
    tensors.put(st.full(1000, 7))
    answers.put("sent")
    time.sleep(_SECONDS)


def _exchange(method: str) -> None:
    """Let a child change a tensor of this process, and receive one that the child made."""
    context = mp.get_context(method)
    tensors, answers = context.Queue(), context.Queue()
    child = context.Process(target=_double, args=(tensors, answers), daemon=True)
    child.start()
    tensor = st.ones((1000, 1000))
    tensors.put(tensor)
    answer = answers.get(timeout=_SECONDS)
    child.join(_SECONDS)
    _expect(child.exitcode == 0, f"the child's exit status is {child.exitcode}")
    _expect(bool((tensor.numpy() == 2).all()), "the child's writes are not in this process's tensor")
    _expect(bool((answer.numpy() == 3).all()), "the child's tensor arrived with other values")


def _kill() -> None:
    """Kill a process that has sent a tensor, which stays readable."""
    context = mp.get_context("spawn")
    tensors, answers = context.Queue(), context.Queue()
    child = context.Process(target=_send_and_wait, args=(tensors, answers), daemon=True)
    child.start()
    answers.get(timeout=_SECONDS)
    child.kill()
    child.join(_SECONDS)
    tensor = tensors.get(timeout=_SECONDS)
    _expect(bool((tensor.numpy() == 7).all()), "the tensor of a killed process arrived with other values")


def _wait_until_free() -> None:
    """Wait until nothing is left of the other checks."""
    deadline = time.monotonic() + _SECONDS
    while (found := st.stats())["bytes_live"] or found["in_flight"]:
        _expect(time.monotonic() < deadline, f"memory is still in use: {found}")
        gc.collect()
        time.sleep(0.01)


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)


def main() -> int:
    """Run all checks, print their results and return the exit status."""
    print(f"shmtensor {st.__version__}, Python {platform.python_version()}, {platform.machine()}")
    checks: dict[str, Callable[[], None]] = {method: partial(_exchange, method) for method in _METHODS}
    checks |= {"kill": _kill, "memory": _wait_until_free}
    status = 0
    for name, check in checks.items():
        try:
            check()
        except Exception as problem:
            status = 1
            print(f"{name}: failed: {type(problem).__name__}: {problem}", flush=True)
        else:
            print(f"{name}: ok", flush=True)
    return status


if __name__ == "__main__":
    # The start method "server" would send functions of __main__ by value, which needs cloudpickle.
    from shmtensor.test import main as run

    argparse.ArgumentParser(prog="python -m shmtensor.test", description=__doc__).parse_args()
    sys.exit(run())
