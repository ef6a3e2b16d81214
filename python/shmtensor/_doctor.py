"""What this machine lets shmtensor do, and what to change if it does not."""

from __future__ import annotations

import os
import platform
import resource
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import shmtensor._core as _core
from shmtensor._doctor_system import system_findings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Finding", "Report", "doctor"]

_DEV_SHM = "/dev/shm"  # noqa: S108  # where POSIX shared memory lies on Linux


@dataclass(frozen=True)
class Finding:
    """One line of a report: what was looked at, whether it is well, and what it says."""

    name: str
    ok: bool
    text: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else 'LOOK'}  {self.name}: {self.text}"


class Report(tuple[Finding, ...]):
    """The findings in order; prints one a line."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Is every finding well?"""
        return all(finding.ok for finding in self)

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__


def doctor() -> Report:
    """Look at the kernel and the limits of this process and say what shmtensor makes of them.

    Starts nothing and changes nothing.

    Returns
    -------
    Report
        Findings; printed, one a line. A finding that is not ok says what to do.
    """
    return Report(finding for check in _CHECKS for finding in check())


def _kernel() -> Iterator[Finding]:
    release = platform.release()
    version = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    yield Finding(
        "kernel",
        version >= (5, 4),
        f"Linux {release}" + ("" if version >= (5, 4) else "; 5.4 or newer is needed"),
    )
    for feature, there, else_text in (
        ("memfd", _core.has_memfd(), "no session can start: allow memfd_create in the seccomp profile"),
        ("pidfd", _core.has_pidfd(), "deaths are noticed by a closed socket only (Linux 5.3 has it)"),
        ("populate", _core.has_populate(), "pages come one by one at first touch (Linux 5.14 has it)"),
    ):
        yield Finding(feature, there, "available" if there else else_text)


def _limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield Finding(
        "descriptors",
        soft >= 64,
        f"soft limit {soft}, hard limit {hard}; each process needs about four and one for each peer",
    )
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    unlimited = space == resource.RLIM_INFINITY
    yield Finding(
        "address space",
        unlimited,
        "unlimited" if unlimited else f"{space} bytes; arenas get a sixteenth each (ulimit -v)",
    )
    maps = _read_number("/proc/sys/vm/max_map_count")
    known = "unknown" if maps is None else maps
    yield Finding("mappings", maps is None or maps >= 1000, f"vm.max_map_count is {known}")
    strict = _read_number("/proc/sys/vm/overcommit_memory") == 2
    yield Finding(
        "overcommit",
        not strict,
        "vm.overcommit_memory is 2: shared memory counts against the commit limit"
        if strict
        else "not strict",
    )


def _dev_shm() -> Iterator[Finding]:
    path = Path(_DEV_SHM)
    try:
        info = os.statvfs(path)
        writable = os.access(path, os.W_OK) and stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        yield Finding(_DEV_SHM, True, f"{error}; only the file_system strategy needs it")
        return
    total = info.f_blocks * info.f_frsize >> 20
    small = total < 256
    yield Finding(
        _DEV_SHM,
        writable,
        f"{info.f_bavail * info.f_frsize >> 20} of {total} MiB free"
        + ("; too small for the file_system strategy (docker run --shm-size)" if small else ""),
    )


def _memory() -> Iterator[Finding]:
    available, limited_by = _core.available_memory()
    yield Finding("memory", available > 1 << 26, f"{available >> 20} MiB available ({limited_by})")


def _program() -> Iterator[Finding]:
    program = Path(str(_core.__file__)).with_name("shmtensor-manager")
    runs = os.access(program, os.X_OK)
    yield Finding("manager", runs, str(program) + ("" if runs else " cannot be run; reinstall"))


def _system() -> Iterator[Finding]:
    for name, ok, text in system_findings():
        yield Finding(name, ok, text)


def _read_number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _kernel,
    _limits,
    _dev_shm,
    _memory,
    _program,
    _system,
)
