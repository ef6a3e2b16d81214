"""Results as they are stored: with the date, facts of the machine, and versions."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = (
    "shmtensor",
    "numpy",
    "torch",
    "faster-fifo",
    "joblib",
    "distributed",
    "ray",
    "iceoryx2",
    "pyzmq",
    "vllm",
)


def write_record(path: Path, content: Mapping[str, Any], of: Mapping[str, str] | None = None) -> None:
    """Write a result as JSON. `of` are the versions with which it was measured, by default `versions()`."""
    record = {
        "date": now(),
        "machine": facts(),
        "versions": versions() if of is None else of,
        **content,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def now() -> str:
    """Return the date and time."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


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
