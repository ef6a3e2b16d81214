"""Check what this machine permits shmtensor to do, and name what to change where it does not."""

from __future__ import annotations

import os
import platform
import re
import resource
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import shmtensor._core as _core
from shmtensor._kept import keep_budget
from shmtensor._sessions import find_sessions, observe
from shmtensor._values import human_bytes
from shmtensor.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEV_SHM = "/dev/shm"  # noqa: S108  # where Linux mounts POSIX shared memory
_NEED_IT = (
    "the file_system strategy, the standard library's locks and torch's DataLoader need it: "
    "mount a tmpfs there"
)


@dataclass(frozen=True)
class Finding:
    """One line of a report: what was checked, whether it is in order, and the result."""

    name: str
    ok: bool
    text: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else 'WARN'}  {self.name}: {self.text}"


class Report(tuple[Finding, ...]):
    """The findings in order; printed, one on each line."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """True if all findings are in order."""
        return all(finding.ok for finding in self)

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__


def doctor() -> Report:
    """Check the kernel and the limits of this process for what shmtensor needs.

    Changes nothing. Where there is a CUDA driver, a child process asks it, so that this process can still
    be forked.

    Returns
    -------
    Report
        Findings; printed, one on each line. The text of a finding that is not ok names the remedy.
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
    for feature, available, otherwise in (
        ("memfd", _core.has_memfd(), "sessions cannot start: allow memfd_create in the seccomp profile"),
        (
            "pidfd",
            _core.has_pidfd(),
            "only a closed socket shows that a process ended (needs Linux 5.3)",
        ),
        ("populate", _core.has_populate(), "pages are faulted in on first touch (needs Linux 5.14)"),
    ):
        yield Finding(feature, available, "available" if available else otherwise)


def _limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield Finding(
        "descriptors",
        soft >= 64,
        f"soft limit {soft}, hard limit {hard}; a process needs two, and one for each whose memory it uses",
    )
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    unlimited = space == resource.RLIM_INFINITY
    yield Finding(
        "address space",
        unlimited,
        "unlimited" if unlimited else f"{space} bytes; each arena gets a sixteenth (ulimit -v)",
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
        yield Finding(_DEV_SHM, False, f"{error}; {_NEED_IT}")
        return
    total = info.f_blocks * info.f_frsize >> 20
    small = total < 256
    yield Finding(
        _DEV_SHM,
        writable,
        f"{info.f_bavail * info.f_frsize >> 20} of {total} MiB free"
        + ("" if writable else f", but not writable; {_NEED_IT}")
        + ("; too small for the file_system strategy (docker run --shm-size)" if small else ""),
    )


def _memory() -> Iterator[Finding]:
    available, limited_by = _core.available_memory()
    yield Finding("memory", available > 1 << 26, f"{available >> 20} MiB available ({limited_by})")


def _kept() -> Iterator[Finding]:
    """Compare what all sessions of this user keep under names with the budget."""
    try:
        budget = keep_budget()
    except ValueError as error:
        yield Finding("kept", False, str(error))
        return
    total, names = 0, []
    for session in find_sessions():
        with suppress(SessionError):  # of another version, or stopped
            for one in (observe(session) or {"names": ()})["names"]:
                if one["keep"]:
                    total += one["bytes"]
                    names.append(one["name"])
    text = f"{human_bytes(total)} in {len(names)} named objects"
    above = budget is not None and total > budget
    if above:
        text += (
            f", above SHMTENSOR_KEEP_BYTES ({budget}): `shmtensor ls` lists them, `shmtensor drop` frees them"
        )
    yield Finding("kept", not above, text)


def _program() -> Iterator[Finding]:
    program = Path(str(_core.__file__)).with_name("shmtensor-manager")
    runs = os.access(program, os.X_OK)
    yield Finding("manager", runs, str(program) + ("" if runs else " cannot be run; reinstall"))


def _huge_pages() -> Iterator[Finding]:
    text = _read("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    chosen = re.search(r"\[(\w+)\]", text or "")
    if chosen is None:
        result = "the kernel has none for shared memory; pages of 4 KiB are used"
    elif chosen[1] in ("never", "deny", "advise"):  # no madvise asks for them
        result = "for shared memory: no; 'within_size' in shmem_enabled speeds up reading large tensors"
    else:
        result = f"for shared memory: {chosen[1]}"
    yield Finding("huge pages", True, result)


def _yama() -> Iterator[Finding]:
    scope = _read("/proc/sys/kernel/yama/ptrace_scope")
    if scope is None:
        yield Finding("Yama", True, "not active")
        return
    level = scope.strip()
    known = {"0": "any process", "1": "descendants only", "2": "administrators only", "3": "nobody"}
    # Reading /proc/PID/fd of the same user, which a new manager does, is permitted at every level.
    permitted = known.get(level, level)
    yield Finding("Yama", True, f"ptrace by {permitted}; shmtensor does not use ptrace, any level will do")


def _container() -> Iterator[Finding]:
    signs = [name for name in ("/.dockerenv", "/run/.containerenv") if Path(name).exists()]
    inside = bool(signs) or "container" in os.environ
    yield Finding(
        "container",
        True,
        "yes: sharing with another container needs the same network namespace and the same user"
        if inside
        else "none detected",
    )


def _driver() -> Iterator[Finding]:
    text = _read("/proc/driver/nvidia/version")
    if text is None:
        text = "its kernel module is not loaded; tensors in host memory do not need it"
        yield Finding("CUDA driver", True, text)
        if "SHMTENSOR_LIBCUDA" not in os.environ:
            return
    else:
        version = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
        yield Finding("CUDA driver", True, version[1] if version else text.partition("\n")[0])
    from shmtensor._cuda.doctor import findings

    for name, ok, said in findings():
        yield Finding(name, ok, said)


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None


def _read_number(path: str) -> int | None:
    try:
        return int(_read(path) or "")
    except ValueError:
        return None


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _kernel,
    _limits,
    _dev_shm,
    _memory,
    _kept,
    _program,
    _huge_pages,
    _yama,
    _container,
    _driver,
)
