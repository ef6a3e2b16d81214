"""The figures in README.md: ``python -m bench.readme RESULT.json...``.

Rewrites the lines of the README's table that start with the name of a `Line`, and the one about a tensor of
8 MiB. A line is from the first file that has its case. It is marked if that is not the first file, or if
shmtensor's messages went through pipes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.kept import Kept, Record, kept, over_pipes, row_of

__all__ = ["LINES", "PEERS", "README", "marks", "with_figures"]

README = Path(__file__).parent.parent / "README.md"
PEERS = ("shmtensor", "torch-fd", "torch-fs", "SharedMemory", "pickle")  # the columns
HEADLINE = "- A tensor of 8 MiB"


def _number(value: float) -> str:
    """Return a number with two significant digits; three from 100 on."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _time(microseconds: float) -> str:
    return f"{_number(microseconds)} us" if microseconds < 1000 else f"{_number(microseconds / 1000)} ms"


def _tensors(count: float) -> str:
    return "over 200,000" if count >= 200_000 else f"{count:,.0f}"  # the case ends there


def _milliseconds(value: float) -> str:
    return f"{_number(value)} ms"


@dataclass(frozen=True)
class Line:
    """A line of the table: its name, and the row that it shows."""

    name: str
    case: str
    what: str
    unit: str
    text: Callable[[float], str] = _time

    def of(self, found: dict[str, Kept], first: Path) -> str:
        source = found[self.case]
        rows = [row_of(source.result, self.what, peer, self.unit) for peer in PEERS]
        cells = [_cell(row, self.text) for row in rows]
        named = "; ".join([self.name, *marks(source, first)])
        return f"| {named} | {' | '.join(cells)} |"


LINES = (
    Line("64 bytes to another process, and its answer", "queue", "64 bytes", "us"),
    Line("a tensor of 8 MiB, and its answer", "queue", "8 MiB tensor", "us"),
    Line("a small int over a queue", "queue", "small ints", "us each"),
    Line("make a tensor of 64 MiB, hand it over, and answer", "handover", "64 MiB, fresh", "us"),
    Line("1,000 fresh tensors in one message, each", "list", "1000, fresh", "us each"),
    Line(
        "tensors alive in two processes, 1,024 descriptors",
        "most",
        "1024 descriptors allowed",
        "tensors",
        _tensors,
    ),
    Line("first read of 256 MiB by a new consumer", "read", "first read", "ms", _milliseconds),
)


def _cell(row: Record | None, text: Callable[[float], str]) -> str:
    return "\N{EN DASH}" if row is None else text(row["summary"]["median"])


def marks(source: Kept, first: Path) -> list[str]:
    """Return what a line notes about its result."""
    other = [] if source.file == first else [f"on {source.record['machine']['processor']}"]
    return other + (["over a pipe"] if over_pipes(source.result) else [])


def _headline(found: dict[str, Kept], first: Path) -> str:
    ours, torch, pickled = (
        _cell(row_of(found["queue"].result, "8 MiB tensor", peer), _time)
        for peer in ("shmtensor", "torch-fd", "pickle")
    )
    beside = "; ".join([f"torch {torch}, pickle {pickled}", *marks(found["queue"], first)])
    return f"{HEADLINE} is handed over and answered in **{ours}** ({beside})."


def with_figures(text: str, files: Sequence[Path]) -> str:
    """Return the README with the figures of the files."""
    found = kept(files)
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if line.startswith(HEADLINE):
            lines[place] = _headline(found, files[0])
        for one in LINES:
            if line.startswith(f"| {one.name}"):
                lines[place] = one.of(found, files[0])
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.readme", description="Put figures into README.md.")
    parser.add_argument("results", type=Path, nargs="+", help="one result or summary per machine")
    README.write_text(with_figures(README.read_text(), parser.parse_args().results))


if __name__ == "__main__":
    main()
