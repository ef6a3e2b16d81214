"""Facts of the machine and versions that are stored with a result."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

__all__ = ["facts", "versions"]

_PACKAGES = ("shmtensor", "numpy", "torch", "faster-fifo", "joblib", "ray", "iceoryx2", "vllm")


def versions() -> dict[str, str]:
    """Return the versions of the installed packages, without importing them."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def facts() -> dict[str, object]:
    """Return a description of the machine and its load."""
    return {
        "processor": _line_of("/proc/cpuinfo", "model name") or platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_kib": int((_line_of("/proc/meminfo", "MemTotal") or "0 kB").split()[0]),
        "system": f"{platform.system()} {platform.release()}",
        "shmem_enabled": _text_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
        "load_average": list(os.getloadavg()),
        "implementation": sys.implementation.name,
    }


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"


def _line_of(path: str, key: str) -> str | None:
    for line in _text_of(path).splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return None
