"""What the report of `doctor` says about the machine around the kernel."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["system_findings"]

Line = tuple[str, bool, str]  # name, is it well, what it says


def system_findings() -> Iterator[Line]:
    """Yield lines about huge pages, Yama, containers and the CUDA driver; none starts anything."""
    yield _huge_pages()
    yield _yama()
    yield _container()
    yield _driver()


def _huge_pages() -> Line:
    text = _read("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    chosen = re.search(r"\[(\w+)\]", text or "")
    if chosen is None:
        return "huge pages", True, "the kernel has none for shared memory; pages of 4 KiB are used"
    mode = chosen[1]
    if mode in ("never", "deny"):
        advice = "no; large tensors are read a little faster with 'advise' in shmem_enabled"
        return "huge pages", True, f"for shared memory: {advice}"
    return "huge pages", True, f"for shared memory: {mode}"


def _yama() -> Line:
    scope = _read("/proc/sys/kernel/yama/ptrace_scope")
    if scope is None:
        return "Yama", True, "not active"
    level = scope.strip()
    known = {"0": "any process", "1": "descendants only", "2": "administrators only", "3": "nobody"}
    # Reading /proc/PID/fd of the same user, which a new manager does, is permitted at every level.
    said = known.get(level, level)
    return "Yama", True, f"ptrace by {said}; shmtensor attaches to no process, so any level will do"


def _container() -> Line:
    signs = [name for name in ("/.dockerenv", "/run/.containerenv") if Path(name).exists()]
    inside = bool(signs) or "container" in os.environ
    if not inside:
        return "container", True, "none seen"
    return (
        "container",
        True,
        "yes: processes of other containers are in reach only with one network namespace and one user",
    )


def _driver() -> Line:
    text = _read("/proc/driver/nvidia/version")
    if text is None:
        return "CUDA driver", True, "none; shared memory of the host needs none"
    version = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return "CUDA driver", True, version[1] if version else text.splitlines()[0]


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None
