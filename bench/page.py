"""The results pages: ``python -m bench.page RESULT.json...``.

docs/benchmarks.md has a table per case and six plots, of the first machine that measured the case;
docs/design/goals.md has the goals, met or missed, on every machine. RESULT-launch.json is included if it
exists beside the first result. Nothing on the pages is written by hand, so losses are shown like wins.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.cases import CASES, load_case
from bench.goals_page import goals
from bench.kept import Kept, Record, kept, machine_of, over_pipes
from bench.plots import plot
from bench.queue_goals import CASES as QUEUE_CASES
from bench.queue_goals import GOALS as QUEUE_GOALS
from bench.report import markdown_table, number
from bench.summary import summary

__all__ = ["DOCS", "benchmarks", "goals"]

DOCS = Path(__file__).parent.parent / "docs"
FOLDER = "benchmarks"  # of the plots, below the docs
ELSEWHERE = ("together", "grid", "processor", "live", "crowd")  # only in the result file and among the goals
PLOTS = ("handover", "list", "fanout", "copyin", "syscalls", "most")

HEAD = """# Benchmarks

Medians, written by `python -m bench.page` from {run}
Producer and consumer {pin}. [Queues and broadcasts](#queues-and-broadcasts)
have their goals beside the figures.

`shmtensor-fs` and `torch-fs` are the strategy `file_system`, `torch-fd` is torch's default. The result file
also has the cases {elsewhere}. `bench/README.md` describes how to measure,
[Goals](design/goals.md) lists the goals, [Performance](design/performance.md) the reasons for misses;
[One copy of your data](guide/one-copy.md) has the memory of a shared data set. Nothing ran on a GPU.
"""

QUEUE_HEAD = """## Queues and broadcasts

The goals of `st.Queue` and `st.Broadcast`. A round trip is a message to another process and its answer;
both may spin, unless stated. Kills are in [Verification](design/verification.md). The cases below have the
figures of all peers: `shmtensor-queue` is `st.Queue`, `shmtensor` the drop-in's SimpleQueue, `pickle` the
standard SimpleQueue, `pickle-queue` the standard Queue, `ray-graph` a compiled graph of Ray, `vllm` the
MessageQueue of vLLM.
"""

PINS = {
    "apart": "are pinned to a processor each",
    "together": "are pinned to one processor",
    "none": "run where the kernel puts them",
}


def _run(file: Path, record: Record, dates: set[str]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    days = " and ".join(sorted(dates))
    return f"`bench/results/{file.name}` ({days}):\n  {machine_of(record)};\n  {versions}."


def _medians_table(result: Record) -> list[str]:
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
    return markdown_table((units.pop() if len(units) == 1 else "", *peers), lines)


def _case_section(kept_result: Kept, first: Path) -> list[str]:
    """Return the title, the table, the plot and the notes of a case."""
    result = kept_result.result
    case = load_case(result["case"])
    baseline = f"; baseline: {case.baseline}" if case.baseline else ""
    summary_line = f"{case.summary[0].upper()}{case.summary[1:]}{baseline}."
    lines = ["", f"## {case.name}", "", summary_line, "", *_medians_table(result)]
    if case.name in PLOTS:
        lines += ["", f"![{case.name}]({FOLDER}/{case.name}.svg)"]
    notes = [f"Without {peer}: {why}." for peer, why in result["absent"].items()]
    if over_pipes(result):
        notes.append(f"Measured on {result['date']}, when a queue of the drop-in was a pipe.")
    if kept_result.file != first:
        notes.append(f"From {_run(kept_result.file, kept_result.record, {result['date']})}")
    for note in (*notes, *result.get("notes", ())):
        lines += ["", note]
    return lines


def _queue_section(found: dict[str, Kept]) -> list[str]:
    """Return the goals of queues and broadcasts beside the figures."""
    results = {case: found[case].result for case in QUEUE_CASES if case in found}
    lines = []
    for goal in QUEUE_GOALS:
        measured = goal.measured(results)
        figure, met = measured or ("not measured", None)
        verdict = {None: "", True: "met", False: "**missed**"}[met]
        lines.append((goal.what, f"{goal.goal} {goal.unit}", figure, verdict))
    return ["", QUEUE_HEAD, *markdown_table(("`st.Queue`, `st.Broadcast`", "goal", "measured", ""), lines)]


def benchmarks(*result_files: Path) -> str:
    """Return the page of results as Markdown; a case is that of the first file that has it."""
    first, found = result_files[0], kept(result_files)
    record = summary([first])
    run = _run(first, record, {result["date"] for result in record["results"]})
    head = HEAD.format(run=run, pin=PINS[record["pin"]], elsewhere=", ".join(ELSEWHERE))
    lines = [head.rstrip()]
    for case in CASES:
        if case in found and case not in (*ELSEWHERE, *QUEUE_CASES):
            lines += _case_section(found[case], first)
    lines += _queue_section(found)
    for case in QUEUE_CASES:
        if case in found:
            lines += _case_section(found[case], first)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description="Make the results pages.")
    parser.add_argument("results", type=Path, nargs="+", help="one result or summary per machine")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of benchmarks.md")
    arguments = parser.parse_args()
    found = kept(arguments.results)
    for folder in (FOLDER, "design"):
        (arguments.docs / folder).mkdir(exist_ok=True)
    for case in PLOTS:
        if case in found and found[case].result["rows"]:
            plot(found[case].result, arguments.docs / FOLDER / f"{case}.svg")
    (arguments.docs / "benchmarks.md").write_text(benchmarks(*arguments.results))
    (arguments.docs / "design" / "goals.md").write_text(goals(arguments.results))


if __name__ == "__main__":
    main()
