"""What is measured; one file each."""

from __future__ import annotations

import importlib

from bench.model import Case

__all__ = ["CASES", "load_case"]

# Name -> module.
CASES = {
    "handover": "handover",
    "list": "lists",
    "copyin": "copyin",
    "alloc": "alloc",
    "import": "imports",
    "kill": "kill",
    "syscalls": "syscalls",
    "read": "read",
    "live": "live",
    "memory": "memory",
}


def load_case(name: str) -> Case:
    """Return a case; nothing of a peer is imported."""
    case: Case = importlib.import_module(f"bench.cases.{CASES[name]}").CASE
    return case
