"""The results pages: ``python -m bench.page RESULT.json...``.

docs/benchmarks.md has one machine, with a table per case and six plots; docs/design/goals.md has the goals,
met or missed, on every machine. RESULT-launch.json is included if it exists beside the first result. Nothing
on the pages is written by hand, so losses are shown like wins.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.cases import load_case
from bench.report import number, ratio_of
from bench.summary import summary

__all__ = ["DOCS", "benchmarks", "goals"]

DOCS = Path(__file__).parent.parent / "docs"
FOLDER = "benchmarks"  # of the plots, below the docs
ELSEWHERE = ("together", "grid", "processor", "live", "crowd")  # only in the result file and among the goals
PLOTS = ("handover", "list", "fanout", "copyin", "syscalls", "most")

HEAD = """# Benchmarks

Medians, written by `python -m bench.page` from {run}
Producer and consumer {pin}.

`shmtensor-fs` and `torch-fs` are the strategy `file_system`, `torch-fd` is torch's default. The result file
also has the cases {elsewhere}. `bench/README.md` describes how to measure,
[Goals](design/goals.md) lists the goals, [Performance](design/performance.md) the reasons for misses;
[One copy of your data](guide/one-copy.md) has the memory of a shared data set. Nothing ran on a GPU.
"""

GOALS_HEAD = """# Goals

Made by `python -m bench.page` from the sources of the benchmarks and the result files. Of several sizes, a
cell has the least and the greatest figure. A ratio is to the case's baseline, a goal for the worst is for
the maximum, all others are for the median. **Bold** figures miss the goal; [Performance](performance.md)
gives the reasons.
"""

PINS = {
    "apart": "are pinned to a processor each",
    "together": "are pinned to one processor",
    "none": "run where the kernel puts them",
}


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return [f"|{'|'.join(line)}|" for line in [headings, ["---"] * len(headings), *lines]]


def _launch_table(record: dict[str, Any]) -> list[str]:
    lines = [
        (line["work"], line["wanted"], line["measured"] if line["ok"] else f"**{line['measured']}**")
        for line in record["table"]
    ]
    return _table(("what", "goal", "measured"), lines)


def _beside(result: Path, what: str) -> dict[str, Any] | None:
    file = result.with_name(f"{result.stem}-{what}.json")
    return _read(file) if file.exists() else None


def _read(file: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file.read_text())
    return record


def _machine(record: dict[str, Any]) -> str:
    machine = record["machine"]
    memory = round(machine["memory_kib"] / (1 << 20))
    return f"{machine['processor']}, {machine['processors']} processors, {memory} GiB, {machine['system']}"


def _run(file: Path, record: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    dates = sorted({result["date"] for result in record["results"]})
    return f"`bench/results/{file.name}` ({' and '.join(dates)}):\n  {_machine(record)};\n  {versions}."


def _medians_table(result: dict[str, Any]) -> list[str]:
    """Return one line for each thing measured in a case, with a column per peer."""
    rows = [row for row in result["rows"] if row["unit"] != "times"]
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    medians: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        medians.setdefault((row["what"], row["unit"]), {})[row["peer"]] = number(row["summary"]["median"])
    units = {unit for _, unit in medians}
    lines = [
        (what if len(units) == 1 else f"{what}, {unit}", *(line.get(peer, "") for peer in peers))
        for (what, unit), line in medians.items()
    ]
    return _table((units.pop() if len(units) == 1 else "", *peers), lines)


def _case_section(result: dict[str, Any]) -> list[str]:
    """Return the title, the table, the plot and the notes of a case."""
    case = load_case(result["case"])
    baseline = f"; baseline: {case.baseline}" if case.baseline else ""
    summary_line = f"{case.summary[0].upper()}{case.summary[1:]}{baseline}."
    lines = ["", f"## {case.name}", "", summary_line, "", *_medians_table(result)]
    if case.name in PLOTS:
        lines += ["", f"![{case.name}]({FOLDER}/{case.name}.svg)"]
    notes = [f"Without {peer}: {why}." for peer, why in result["absent"].items()]
    for note in (*notes, *result.get("notes", ())):
        lines += ["", note]
    return lines


def _figure(row: dict[str, Any]) -> tuple[float, str]:
    """Return the figure that a row's goal is about, as a number and as text."""
    of = row["goal"].split()[0]  # "ratio", "worst" or a comparison
    if of == "ratio":
        return row["ratio"], ratio_of(row)
    value = row["summary"]["most" if of == "worst" else "median"]
    return value, number(value)


def _measured(rows: Sequence[dict[str, Any]]) -> str:
    """Return the range of the figures of rows with one goal, and how many miss it."""
    figures = sorted(map(_figure, rows))
    missed = sum(not row["met"] for row in rows)
    if len(rows) == 1:
        return f"**{figures[0][1]}**" if missed else figures[0][1]
    text = f"{figures[0][1]} to {figures[-1][1]}"
    return f"{text}; **{missed} of {len(rows)} missed**" if missed else text


def _goals_table(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return one line for each goal of a case, with a column per machine."""
    lines: dict[tuple[str, ...], list[list[dict[str, Any]]]] = {}
    for place, record in enumerate(records):
        for result in record["results"]:
            for row in result["rows"]:
                if row["met"] is not None:
                    compared = row["what"].partition(": ")[2]
                    unit = "" if row["goal"].startswith("ratio") else f" {row['unit']}"
                    goal = (result["case"], compared, row["goal"] + unit)
                    lines.setdefault(goal, [[] for _ in records])[place].append(row)
    table = []
    for (case, compared, goal), line in lines.items():
        whats = {row["what"] for rows in line for row in rows}
        what = whats.pop() if len(whats) == 1 else compared
        cells = [_measured(rows) if rows else "" for rows in line]
        table.append((f"{case}: {what}" if what else case, goal, *cells))
    names = [record["machine"]["processor"] for record in records]
    return _table(("case", "goal", *names), table)


def benchmarks(result_file: Path) -> str:
    """Return the page of one machine's results as Markdown."""
    record = summary([result_file])
    head = HEAD.format(
        run=_run(result_file, record), pin=PINS[record["pin"]], elsewhere=", ".join(ELSEWHERE)
    ).rstrip()
    sections = [_case_section(result) for result in record["results"] if result["case"] not in ELSEWHERE]
    return "\n".join([head, *(line for section in sections for line in section)]) + "\n"


def goals(result_files: Sequence[Path]) -> str:
    """Return the page of the goals as Markdown, with a column for each machine."""
    records = [summary([file]) for file in result_files]
    lines = [GOALS_HEAD]
    lines += [
        f"- `bench/results/{file.name}`: {_machine(record)}"
        for file, record in zip(result_files, records, strict=True)
    ]
    lines += ["", *_goals_table(records), ""]
    launch = _beside(result_files[0], "launch")
    if launch is not None:
        lines += ["## Starting workers", "", *_launch_table(launch), ""]
    return "\n".join(lines)


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
    parser = argparse.ArgumentParser(prog="python -m bench.page", description="Make the results pages.")
    parser.add_argument("results", type=Path, nargs="+", help="one result or summary per machine")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of benchmarks.md")
    arguments = parser.parse_args()
    for folder in (FOLDER, "design"):
        (arguments.docs / folder).mkdir(exist_ok=True)
    for result in summary(arguments.results[:1])["results"]:
        if result["case"] in PLOTS and result["rows"]:
            _plot(result, arguments.docs / FOLDER / f"{result['case']}.svg")
    (arguments.docs / "benchmarks.md").write_text(benchmarks(arguments.results[0]))
    (arguments.docs / "design" / "goals.md").write_text(goals(arguments.results))


if __name__ == "__main__":
    main()
