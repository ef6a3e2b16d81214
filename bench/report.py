"""Results as a table and as a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.harness import Result
from bench.machine import write_record
from bench.model import Row
from bench.options import Options

HEADINGS = ("what", "peer", "median", "p99", "least", "most", "spread", "unit", "ratio", "goal", "")


def number(value: float) -> str:
    """Return the number with three significant digits."""
    if value == 0:
        return "0"
    digits = max(0, 3 - len(str(int(abs(value))))) if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row, in the order of HEADINGS."""
    summary = row.summary
    return (
        row.what,
        row.peer,
        number(summary.median),
        "" if row.p99 is None else number(row.p99),
        number(summary.least),
        number(summary.most),
        f"{summary.spread:.0%}",
        row.unit,
        "" if row.ratio is None else f"{row.ratio:.2f}",
        str(row.goal or ""),
        {None: "", True: "met", False: "MISSED"}[row.met],
    )


def markdown_table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return [f"|{'|'.join(line)}|" for line in [headings, ["---"] * len(headings), *lines]]


def print_result(result: Result) -> None:
    """Print a table, formatted by rich if it is installed."""
    case = result.case
    title = f"{case.name}: {case.summary}" + (f"; ratio to {case.baseline}" if case.baseline else "")
    lines = [cells(row) for row in result.rows]
    try:
        if not sys.stdout.isatty():  # a file or pipe: no width and no colours
            raise ModuleNotFoundError
        _print_fine(title, lines)
    except ModuleNotFoundError:
        _print_plain(title, lines)
    for peer, why in result.absent.items():
        print(f"  without {peer}: {why}")


def _print_fine(title: str, lines: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in (*HEADINGS[2:7], "ratio") else "left")
    for line in lines:
        table.add_row(*line)
    Console(width=None).print(table)


def _print_plain(title: str, lines: list[tuple[str, ...]]) -> None:
    widths = [max(len(line[i]) for line in [HEADINGS, *lines]) for i in range(len(HEADINGS))]
    print(title)
    for line in [HEADINGS, *lines]:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def write_json(path: Path, results: Iterable[Result], options: Options) -> None:
    """Write all measurements and facts of the machine to a file."""
    found = list(results)
    versions: dict[str, str] = {}
    for result in found:
        versions |= result.versions
    results_as_json = [result.to_json() for result in found]
    content = {"pin": options.pin, "quick": options.quick, "results": results_as_json}
    write_record(path, content, versions)
