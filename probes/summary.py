"""One file of what a GPU report found: ``python -m probes.summary FOLDER bench/results/<gpu>.json``."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from probes.keep import keep

PROGRAMS = ("round_trip", "flight", "weights", "deaths", "storm", "facts")
KEPT = {"facts": "answers"} | dict.fromkeys(
    ("round_trip", "flight", "weights"), "results"
)  # the part of a program's file; else all of it


def summary(folder: Path) -> dict[str, Any]:
    """Return the machine, the number of tests by outcome, and what each program that was run has found."""
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    if (folder / "tests.xml").exists():
        found["tests"] = _outcomes(folder / "tests.xml")
    for name in PROGRAMS:
        if (file := folder / f"{name}.json").exists():
            content = json.loads(file.read_text())
            found[name] = content[KEPT[name]] if name in KEPT else content
    return _rounded(found)


def _outcomes(file: Path) -> dict[str, Any]:
    """Return how many tests passed and failed, and how many were skipped by reason."""
    outcomes: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for case in ET.parse(file).getroot().iter("testcase"):  # noqa: S314  # written by pytest
        reason = case.find("skipped")
        if reason is not None:
            skipped[reason.get("message", "")] += 1
        else:
            outcomes["passed" if len(case.findall("*")) == 0 else "failed"] += 1
    return {**outcomes, "skipped": dict(skipped)}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    keep(options.file, summary(options.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
