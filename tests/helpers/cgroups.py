"""A memory cgroup below that of this process, of version 1 or 2."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MemoryCgroup:
    folder: Path

    @classmethod
    def make(cls, size: int, name: str = "shmtensor-test") -> MemoryCgroup | None:
        """Make a group with a limit of `size` bytes; return None without the right to do so."""
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for base, file, wanted in (
                ("/sys/fs/cgroup", "memory.max", ""),
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory"),
            ):
                folder = Path(base) / path.lstrip("/") / f"{name}-{os.getpid()}"
                if controllers != wanted:
                    continue
                try:
                    folder.mkdir()
                except OSError:
                    continue
                try:
                    (folder / file).write_text(str(size))
                except OSError:
                    folder.rmdir()
                    continue
                return cls(folder)
        return None

    def set_limit(self, size: int) -> None:
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (self.folder / name).exists():
                (self.folder / name).write_text(str(size))

    def enter(self) -> None:
        """Move this process into the group."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self) -> None:
        """Move this process into the group above."""
        (self.folder.parent / "cgroup.procs").write_text(str(os.getpid()))

    def kills(self) -> int:
        """Return how many processes the out-of-memory killer has killed in the group."""
        for name in ("memory.events", "memory.oom_control"):
            if (self.folder / name).exists():
                fields = dict(line.split() for line in (self.folder / name).read_text().splitlines())
                return int(fields.get("oom_kill", 0))
        return 0

    def remove(self, timeout: float = 60.0) -> None:
        """Remove the group, after its processes have ended: a manager ends after its last process."""
        deadline = time.monotonic() + timeout
        while pids := (self.folder / "cgroup.procs").read_text().split():
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes are left in {self.folder}: {pids}")
            time.sleep(0.02)
        self.folder.rmdir()
