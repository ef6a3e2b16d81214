"""A kept result as Markdown: ``python -m bench.table FILE.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.report import HEADINGS, number

__all__ = ["markdown"]


def markdown(path: Path) -> str:
    """Return one table a case."""
    record = json.loads(path.read_text())
    lines: list[str] = []
    for result in record["results"]:
        lines += [f"### {result['case']}", "", _line(HEADINGS), _line(("---",) * len(HEADINGS))]
        for row in result["rows"]:
            found = row["summary"]
            verdict = {None: "", True: "met", False: "MISSED"}[row["met"]]
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
            values = [number(found[name]) for name in ("median", "least", "most")]
            spread = f"{found['spread']:.0%}"
            cells = (row["what"], row["peer"], *values, spread, row["unit"], ratio, row["goal"], verdict)
            lines.append(_line(cells))
        lines += [f"\nWithout {peer}: {why}" for peer, why in result["absent"].items()]
        lines.append("")
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(markdown(Path(sys.argv[1])))
