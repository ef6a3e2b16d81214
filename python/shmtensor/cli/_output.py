"""Output of the commands: lines and tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence


class Table(NamedTuple):
    """A table for people."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]

    def cells(self) -> list[list[str]]:
        """Return the texts of the rows."""
        return [[plain(cell) for cell in row] for row in self.rows]


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def plain(text: object) -> str:
    """Return a text without control characters: another program's words must not control the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(text))


def echo(text: str) -> None:
    """Print a line."""
    print(text)  # noqa: T201


def complain(*problems: str) -> None:
    """Print lines to standard error, if there is one."""
    for problem in problems if sys.stderr else ():
        print(plain(problem), file=sys.stderr)  # noqa: T201


def print_json(value: Any) -> None:
    """Print a value as one JSON document."""
    echo(json.dumps(value, indent=1))


def show(parts: Iterable[str | Table]) -> None:
    """Print lines, and tables in columns; a table without rows is left out."""
    for part in parts:
        if isinstance(part, str):
            echo(plain(part))
        elif part.rows:
            lines = [list(part.head), *part.cells()]
            widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
            for line in lines:
                row = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
                echo(f"  {row}".rstrip())
