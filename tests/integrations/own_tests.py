"""The tests that a library has of itself, on the simulated driver.

A list of "NAME NEED" names those that need what the simulator lacks.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cuda.harness import Machine
from tests.helpers.children import run_command


def read_needs(library: str) -> dict[str, str]:
    """Return what tests need that the simulator lacks, by the tests' names."""
    rows = Path(__file__).with_name(f"{library}_needs.txt").read_text().splitlines()
    return dict(row.rsplit(maxsplit=1) for row in rows if not row.startswith("#"))


def check(
    machine: Machine, library: str, arguments: list[str], *, at_least: int, of: tuple[str, ...]
) -> None:
    """Run the suite of a library: of the tests whose names begin so, only those of the list may fail."""
    command = [sys.executable, "-m", f"tests.integrations.{library}_suite", *arguments]
    done = run_command(command, timeout=110, env=machine.env)
    results: dict[str, dict[str, str]] = {"passed": {}, "failed": {}}
    for line in done.stdout.splitlines():
        result, _, rest = line.partition(" ")
        results.get(result, {})[rest.partition(" ")[0]] = rest
    known = {name for name in read_needs(library) if name.startswith(of)}
    unknown = [line for name, line in results["failed"].items() if name not in known]
    assert not unknown, unknown
    assert len(results["passed"]) >= at_least, done.stderr[-5000:]
    mended = known & set(results["passed"])
    assert not mended, f"remove from {library}_needs.txt: {mended}"
