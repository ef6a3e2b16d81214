"""Commands with a time limit that leave no process running."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["adopt_orphans", "end_children", "run"]

GRACE = 10.0  # from an interrupt to the kill: enough to report partial results


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, including those in other sessions."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def run(words: list[str], seconds: float, log: TextIO, **options: Any) -> int:
    """Run a command and return its exit code; at the time limit it is interrupted, then killed."""
    print(f"\n=== {seconds:.0f} s for {' '.join(words)}", file=log, flush=True)
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **options,
    )
    for timeout, then in ((seconds, signal.SIGINT), (GRACE, signal.SIGKILL)):
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            print(f"\n=== time limit reached: {then.name}", file=log, flush=True)
            process.send_signal(then)
    with contextlib.suppress(subprocess.TimeoutExpired):  # the driver may block its exit
        process.wait(GRACE)
    return -signal.SIGKILL


def end_children(spared: int | None, timeout: float = 3.0) -> list[str]:
    """Wait for all children but one to exit, then kill the rest; return the command lines of those killed."""
    end, killed = time.monotonic() + timeout, {}
    while (left := _children(spared)) and time.monotonic() < end + GRACE:
        for pid, words in left.items():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            if time.monotonic() > end:
                killed.setdefault(pid, words)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return list(filter(None, killed.values()))


def _children(spared: int | None) -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):  # no process, or one that has just ended
            pid = int(entry.name)
            parent = int((entry / "stat").read_text().rsplit(") ", 1)[1].split()[1])
            if parent == os.getpid() and pid != spared:
                found[pid] = (entry / "cmdline").read_text().replace("\0", " ").strip()[:200]
    return found
