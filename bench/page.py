"""The results page: ``python -m bench.page RESULT.json...`` writes docs/benchmarks.md, with its plots.

RESULT-cpp.json and RESULT-launch.json are taken along where they lie beside the first. Where several results
of a machine have the same case, the last one counts, but for peers that failed in it. The page is about the
first result's machine; of others it has the goals. Nothing on it is written by hand, so that losses
are shown like wins.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.cases import CASES, load_case
from bench.report import HEADINGS, cells_of, number, ratio_of

__all__ = ["DOCS", "page"]

DOCS = Path(__file__).parent.parent / "docs"
FOLDER = "benchmarks"  # of the plots, below the docs

HEAD = """# Benchmarks

Made by `python -m bench.page` from {run}
Producer and consumer {pin}.
{others}
Repeat it with `make bench BENCH_PEERS="torch others"` and `make bench-cpp`. `bench/README.md` says what each
case does and how it measures, [Performance](design/performance.md) why what is missed is missed. Times hold
for that machine; ratios, within the run, for more. Nothing here ran on a GPU.

How much memory a data set costs that all workers share is on [One copy of your data](guide/one-copy.md).
"""

PINS = {
    "apart": "are pinned to a processor each",
    "together": "are pinned to one processor",
    "none": "run where the kernel puts them",
}


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in [headings, ["---"] * len(headings), *lines]]


def _verdict(row: dict[str, Any]) -> str:
    return {None: "", True: "met", False: "**missed**"}[row["met"]]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (*cells_of(row)[:-1], _verdict(row))


def _cpp_table(record: dict[str, Any]) -> list[str]:
    """Return the medians of a file of Google Benchmark."""
    lines = []
    for found in record["benchmarks"]:
        if found.get("aggregate_name", "median") != "median":
            continue
        rate = found.get("bytes_per_second")
        moved = "" if rate is None else f"{number(rate / 1e9)} GB/s"
        times = (f"{number(found[key])} {found['time_unit']}" for key in ("real_time", "cpu_time"))
        lines.append((f"`{found['run_name']}`", *times, moved))
    return _table(("what", "elapsed", "processor", "moved"), lines)


def _launch_table(record: dict[str, Any]) -> list[str]:
    lines = [
        (line["work"], line["measured"], line["wanted"], "met" if line["ok"] else "**missed**")
        for line in record["table"]
    ]
    return _table(("what", "measured", "goal", ""), lines)


def _beside(result: Path, what: str) -> dict[str, Any] | None:
    file = result.with_name(f"{result.stem}-{what}.json")
    return _read(file) if file.exists() else None


def _read(file: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file.read_text())
    return record


def _by_machine(files: Sequence[Path]) -> list[list[Path]]:
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(_read(file)["machine"]["processor"], []).append(file)
    return list(groups.values())


def _run(file: Path) -> str:
    record = _read(file)
    machine = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return (
        f"`bench/results/{file.name}` of {record['date'][:10]}: {machine['processor']},\n"
        f"{machine['processors']} processors, {round(machine['memory_kib'] / (1 << 20))} GiB, "
        f"{machine['system']}; {versions}.\nLoad average when it was written: {_load(record)}."
    )


def _other_run(file: Path) -> str:
    record = _read(file)
    cases = ", ".join(result["case"] for result in record["results"])
    load = _load(record)
    return f"From a run of its own on the same machine, `bench/results/{file.name}` (load {load}): {cases}.\n"


def _load(record: dict[str, Any]) -> str:
    return ", ".join(f"{load:.1f}" for load in record["machine"]["load_average"])


def _results(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the results of all files, in the order in which cases are listed."""
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        for result in _read(file)["results"]:
            found[result["case"]] = _with_absent_peers(result, found.get(result["case"]))
            found[result["case"]].setdefault("file", file.name)
    return [found[case] for case in CASES if case in found]


def _with_absent_peers(result: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Add what an earlier run has of peers that failed in this one."""
    if before is None:
        return result
    rows = [row for row in before["rows"] if row["peer"] in result["absent"]]
    peers = {row["peer"] for row in rows}
    absent = {peer: why for peer, why in result["absent"].items() if peer not in peers}
    notes = [
        f"{peer} is from `{before['file']}`; here it failed: {result['absent'][peer]}." for peer in peers
    ]
    return result | {"rows": result["rows"] + rows, "absent": absent, "notes": notes}


def _goals(results: Iterable[dict[str, Any]]) -> list[str]:
    goals = [
        (
            result["case"],
            row["what"],
            row["goal"],
            number(row["summary"]["median"]),
            row["unit"],
            ratio_of(row),
            _verdict(row),
        )
        for result in results
        for row in result["rows"]
        if row["met"] is not None
    ]
    return _table(("case", "what", "goal", "median", "unit", "ratio", ""), goals)


def page(result_files: Sequence[Path]) -> str:
    """Return the page as Markdown."""
    here, *elsewhere = _by_machine(result_files)
    result_file, *others = here
    results = _results(here)
    lines = [
        HEAD.format(
            run=_run(result_file),
            pin=PINS[_read(result_file)["pin"]],
            others="".join(map(_other_run, others)),
        ),
        "## Goals",
        "",
        *_goals(results),
    ]
    for first, *rest in elsewhere:
        name = _read(first)["machine"]["processor"]
        lines += ["", f"## Goals on another machine: {name}", "", f"From {_run(first)}"]
        lines += [_other_run(file).rstrip() for file in rest]
        lines += ["", *_goals(_results([first, *rest]))]
    for result in results:
        case = load_case(result["case"])
        against = f" The ratio is to {case.baseline}." if case.baseline else ""
        lines += ["", f"## {case.name}", "", f"{case.summary[0].upper()}{case.summary[1:]}.{against}", ""]
        if _is_drawn(result):
            lines += [f"![{case.name}]({FOLDER}/{case.name}.svg)", ""]
        lines += _table(HEADINGS, [_cells(row) for row in result["rows"]])
        lines += [f"\nWithout {peer}: {why}." for peer, why in result["absent"].items()]
        lines += [f"\n{note}" for note in result.get("notes", ())]
    launch = _beside(result_file, "launch")
    if launch is not None:
        lines += ["", "## Starting workers", "", *_launch_table(launch)]
    cpp = _beside(result_file, "cpp")
    if cpp is not None:
        lines += ["", "## The core alone, in C++", "", *_cpp_table(cpp)]
    return "\n".join(lines) + "\n"


def _is_drawn(result: dict[str, Any]) -> bool:
    return len({row["peer"] for row in result["rows"]}) > 2


def _plot(result: dict[str, Any], path: Path) -> None:
    """Draw the medians of a case, a group of bars for each thing measured, on a logarithmic scale."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    unit = result["rows"][0]["unit"]
    rows = [row for row in result["rows"] if row["unit"] == unit]
    things = list(dict.fromkeys(row["what"] for row in rows))
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    with rc_context({"svg.hashsalt": "shmtensor", "svg.fonttype": "none"}):  # same numbers, same file
        figure = Figure(figsize=(8, 1 + 0.16 * len(rows) + 0.15 * len(things)))
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        high = 0.8 / len(peers)
        for place, peer in enumerate(peers):
            mine = [row for row in rows if row["peer"] == peer]
            axes.barh(
                [things.index(row["what"]) + (place - (len(peers) - 1) / 2) * high for row in mine],
                [row["summary"]["median"] for row in mine],
                height=high,
                label=peer,
                color=f"C{place % 10}",
            )
        axes.set_yticks(range(len(things)), things, fontsize="small")
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel(unit)
        axes.grid(alpha=0.3, axis="x")
        axes.legend(fontsize="small")
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description="Make the results page.")
    parser.add_argument("results", type=Path, nargs="+", help="what `python -m bench --json` wrote")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of benchmarks.md")
    arguments = parser.parse_args()
    (arguments.docs / FOLDER).mkdir(exist_ok=True)
    for result in filter(_is_drawn, _results(_by_machine(arguments.results)[0])):
        _plot(result, arguments.docs / FOLDER / f"{result['case']}.svg")
    (arguments.docs / "benchmarks.md").write_text(page(arguments.results))


if __name__ == "__main__":
    main()
