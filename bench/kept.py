"""The stored results that the pages show: each case from the first file that has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.summary import summary

__all__ = ["THROUGH_QUEUES", "Kept", "Record", "kept", "machine_of", "over_pipes", "read", "row_of"]

Record = dict[str, Any]
"""A stored result as JSON."""

THROUGH_QUEUES = ("handover", "together", "list", "fanout", "grid", "pool", "syscalls", "processor")
"""The cases that use the drop-in's queues."""

PIPES_UNTIL = "2026-11-24"  # a result from before this day was measured when these queues were pipes


@dataclass(frozen=True)
class Kept:
    """A case's result, and where it is stored."""

    file: Path
    record: Record
    result: Record


def read(file: Path) -> Record:
    record: Record = json.loads(file.read_text())
    return record


def kept(files: Sequence[Path]) -> dict[str, Kept]:
    """Return the results by case."""
    found: dict[str, Kept] = {}
    for file in files:
        record = summary([file])
        for result in record["results"]:
            found.setdefault(result["case"], Kept(file, record, result))
    return found


def row_of(result: Record, what: str, peer: str, unit: str | None = None) -> Record | None:
    """Return a row of a result; None if it was not measured."""
    for row in result["rows"]:
        if (row["what"], row["peer"]) == (what, peer) and unit in (None, row["unit"]):
            found: Record = row
            return found
    return None


def over_pipes(result: Record) -> bool:
    """Return True if shmtensor's messages of a result went through pipes."""
    return result["case"] in THROUGH_QUEUES and result["date"] < PIPES_UNTIL


def machine_of(record: Record) -> str:
    """Return a description of the machine of a record."""
    machine = record["machine"]
    memory = round(machine["memory_kib"] / (1 << 20))
    return f"{machine['processor']}, {machine['processors']} processors, {memory} GiB, {machine['system']}"
