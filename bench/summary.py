"""One summary per machine: ``python -m bench.summary RESULT.json... --out bench/results/<machine>.json``.

A result file of `python -m bench --json` holds every measurement. The summary keeps the rows of the tables
and where they come from. Where several results have the same case, the last one counts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cases import CASES


def summary(files: Sequence[Path]) -> dict[str, Any]:
    """Return the rows of all files, in the order in which cases are listed."""
    records: list[dict[str, Any]] = [json.loads(file.read_text()) for file in files]
    machines = {record["machine"]["processor"] for record in records}
    if len(machines) != 1:
        msg = f"a summary is of one machine, not of {sorted(machines)}"
        raise ValueError(msg)
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        for result in record["results"]:
            case = result["case"]
            run = {"date": record["date"][:10], "load": record["machine"]["load_average"]}
            found[case] = run | {key: value for key, value in result.items() if key != "samples"}
    first = {key: value for key, value in records[0].items() if key != "results"}
    return first | {
        "versions": _all_versions(records),
        "results": [found[case] for case in CASES if case in found],
    }


def _all_versions(records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the versions of all runs: "1.0 and 1.1" where they differ."""
    found: dict[str, list[str]] = {}
    for record in records:
        for name, versions in record["versions"].items():
            known = found.setdefault(name, [])
            known += [version for version in versions.split(" and ") if version not in known]
    return {name: " and ".join(versions) for name, versions in found.items()}


def _one_row_per_line(record: dict[str, Any]) -> str:
    """Return the record as JSON, so that a new run changes few lines."""
    rows: list[dict[str, Any]] = [row for result in record["results"] for row in result["rows"]]
    numbers = iter(range(len(rows)))
    results = [
        result | {"rows": [f"row {next(numbers)}" for _ in result["rows"]]} for result in record["results"]
    ]
    text = json.dumps(record | {"results": results}, indent=1)
    for number, row in enumerate(rows):
        text = text.replace(f'"row {number}"', json.dumps(row), 1)
    return f"{text}\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.summary", description="Keep one machine's results."
    )
    parser.add_argument("results", type=Path, nargs="+", help="files that `python -m bench --json` wrote")
    parser.add_argument("--out", type=Path, required=True, help="the summary")
    arguments = parser.parse_args()
    arguments.out.write_text(_one_row_per_line(summary(arguments.results)))


if __name__ == "__main__":
    main()
