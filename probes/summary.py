"""What a step of a GPU report has found, short enough to be kept: times have four digits."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from pathlib import Path


def found_in(file: Path) -> Any:
    """Return the results that a program has written, or the number of tests by outcome."""
    if file.suffix == ".xml":
        return _outcomes(file)
    content = json.loads(file.read_text())
    return _rounded(content.get("results", content.get("answers", content)))


def _outcomes(file: Path) -> dict[str, Any]:
    """Return how many tests passed and failed, and how many were skipped by reason."""
    outcomes: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    try:
        cases = list(ET.parse(file).getroot().iter("testcase"))  # noqa: S314  # written by pytest
    except ET.ParseError as error:  # pytest was killed while it wrote
        return {"error": f"{file.name}: {error}"}
    for case in cases:
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
