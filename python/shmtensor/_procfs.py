"""Facts about other processes, read from ``/proc``."""

from __future__ import annotations

import os
from contextlib import suppress


def children(pid: int) -> list[int]:
    """Return the processes that all threads of a process have started; none if the process has ended."""
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, _read(pid, f"task/{task}/children").split())
    return found


def command_line(pid: int) -> str:
    """Return the words of a process's command line, joined by spaces; nothing if the process has ended."""
    try:
        words = _read(pid, "cmdline").split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode(errors="replace") for word in words if word)


def runs_this_interpreter(pid: int) -> bool:
    """Return True if a process of this user executes the same file as this one."""
    try:
        return os.path.samefile("/proc/self/exe", f"/proc/{pid}/exe")
    except OSError:  # the process is another user's, or has ended
        return False


def initial_variable(pid: int, name: str) -> str | None:
    """Return an environment variable with which a process began; None if it had none, or has ended."""
    try:
        entries = _read(pid, "environ").split(b"\0")
    except OSError:
        return None
    start = f"{name}=".encode()
    return next((os.fsdecode(entry[len(start) :]) for entry in entries if entry.startswith(start)), None)


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
