"""Output of the commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["add_json", "echo", "print_json", "print_table"]


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def echo(text: str) -> None:
    """Print a line."""
    print(text)  # noqa: T201


def print_json(value: Any) -> None:
    """Print a value as one JSON document."""
    echo(json.dumps(value, indent=1))


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "") -> None:
    """Print a table: with rich on a terminal if it is installed, else in columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty() and not indent and _by_rich(head, cells):
        return
    lines = [list(head), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        row = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        echo(f"{indent}{row}".rstrip())


def _by_rich(head: Sequence[str], cells: list[list[str]]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        return False
    table = Table(*head, box=None, pad_edge=False)
    for row in cells:
        table.add_row(*row)
    Console().print(table)
    return True
