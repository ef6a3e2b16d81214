"""Whether the kernel killed processes for lack of memory, as the control group counts it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["memory_kills"]


def memory_kills(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Count the processes of this control group that were killed so far; None when that cannot be told."""
    try:
        entries = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    counted: int | None = None
    for _, controllers, path in entries:
        if "memory" in controllers.split(","):
            files = [
                root / "memory" / path[1:] / "memory.oom_control",
                root / "memory" / "memory.oom_control",
            ]
        elif not controllers:
            files = [root / path[1:] / "memory.events", root / "memory.events"]
        else:
            continue
        # In a container the path may be that of the host, and the group the root of what can be seen.
        for file in files:
            count = _field(file, "oom_kill")
            if count is not None:
                counted = (counted or 0) + count
                break
    return counted


def _field(file: Path, name: str) -> int | None:
    try:
        fields = dict(line.split() for line in file.read_text().splitlines())
        return int(fields[name])
    except (OSError, KeyError, ValueError):
        return None
