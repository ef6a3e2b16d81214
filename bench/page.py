"""The results pages: ``python -m bench.page RESULT.json...``.

docs/benchmarks.md has a picture of the README's times, and a list of the cases. The pages below it have a
table per case and some plots, of the first machine that measured the case; docs/design/goals.md has the
goals, met or missed, on every machine. If they exist beside the first result, RESULT-launch.json is included,
and ram.json is drawn for docs/guide/one-copy.md. Nothing on the pages is written by hand, so losses are shown
like wins.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.cases import CASES, load_case
from bench.cases.ram_report import picture
from bench.goals_page import goals
from bench.gpu.page import page as gpu_page
from bench.kept import Kept, Record, kept, machine_of, over_pipes, read, row_of
from bench.plots import plot
from bench.queue_goals import CASES as QUEUE_CASES
from bench.readme import LINES, PEERS, marks
from bench.report import markdown_table, number
from bench.summary import summary

__all__ = ["DOCS", "pages"]

DOCS = Path(__file__).parent.parent / "docs"
GPU = Path(__file__).parent / "results" / "nvidia-h200.json"
FOLDER = "benchmarks"  # of the pages of cases and the plots, below the docs
ELSEWHERE = ("together", "grid", "processor", "live", "crowd")  # only in the result file and among the goals
OVERVIEW = "overview"  # a plot
PLOTS = ("handover", "list", "fanout", "copyin", "syscalls", "most")

HEAD = """# Benchmarks

![times of shmtensor beside those of others](benchmarks/overview.svg)

Medians, written by `python -m bench.page` from {run}
Producer and consumer {pin}. The picture has the times of the
README, on a logarithmic scale; "over a pipe" is from when a queue of the drop-in was a pipe.

`shmtensor-fs` and `torch-fs` are the strategy `file_system`, `torch-fd` is torch's default. The result file
also has the cases {elsewhere}. `bench/README.md` describes how to measure,
[Goals](design/goals.md) lists the goals, [Performance](design/performance.md) the reasons for misses;
[One copy of your data](guide/one-copy.md) has the memory of a shared data set,
[GPU memory](benchmarks/gpu.md) what was measured on a GPU.
"""

TENSORS_HEAD = """# Tensors

Medians; [Benchmarks](../benchmarks.md) names the machine and the peers.
"""

QUEUES_HEAD = """# Queues and broadcasts

Medians; [Benchmarks](../benchmarks.md) names the machine. `shmtensor-queue` is `st.Queue`, `shmtensor` the
drop-in's SimpleQueue, `pickle` the standard SimpleQueue, `pickle-queue` the standard Queue, `ray-graph` a
compiled graph of Ray, `vllm` the MessageQueue of vLLM. See also their
[goals](../design/goals.md#queues-and-broadcasts) and the [kills](../design/verification.md).
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
        lines += ["", f"![{case.name}]({case.name}.svg)"]
    notes = [f"Without {peer}: {why}." for peer, why in result["absent"].items()]
    if over_pipes(result):
        notes.append(f"Measured on {result['date']}, when a queue of the drop-in was a pipe.")
    if kept_result.file != first:
        notes.append(f"From {_run(kept_result.file, kept_result.record, {result['date']})}")
    for note in (*notes, *result.get("notes", ())):
        lines += ["", note]
    return lines


def _contents(page: str, cases: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in cases:
        case = load_case(name)
        yield f"[{name}]({FOLDER}/{page}.md#{name})", f"{case.summary[0].upper()}{case.summary[1:]}"


def pages(files: Sequence[Path]) -> dict[str, str]:
    """Return the pages as Markdown, by their names; a case is that of the first file that has it."""
    first, found = files[0], kept(files)
    record = summary([first])
    run = _run(first, record, {result["date"] for result in record["results"]})
    tensors = [case for case in CASES if case in found and case not in (*ELSEWHERE, *QUEUE_CASES)]
    queues = [case for case in QUEUE_CASES if case in found]
    head = HEAD.format(run=run, pin=PINS[record["pin"]], elsewhere=", ".join(ELSEWHERE))
    contents = [*_contents("tensors", tensors), *_contents("queues", queues)]
    lines = {
        "benchmarks": [head, *markdown_table(("case", "what it measures"), contents)],
        f"{FOLDER}/tensors": [TENSORS_HEAD.rstrip(), *_sections(tensors, found, first)],
        f"{FOLDER}/queues": [QUEUES_HEAD.rstrip(), *_sections(queues, found, first)],
        f"{FOLDER}/gpu": gpu_page(GPU),
    }
    texts = {f"{name}.md": "\n".join(text) + "\n" for name, text in lines.items()}
    return texts | {"design/goals.md": goals(files)}


def _sections(cases: Sequence[str], found: dict[str, Kept], first: Path) -> list[str]:
    return [line for case in cases for line in _case_section(found[case], first)]


def _overview(found: dict[str, Kept], first: Path) -> Record:
    """Return the times of the README as a result."""
    rows = []
    for line in (one for one in LINES if one.case in found and one.unit.startswith("us")):
        source = found[line.case]
        name = "; ".join([line.name, *marks(source, first)])
        for peer in PEERS:
            row = row_of(source.result, line.what, peer, line.unit)
            rows += [] if row is None else [row | {"what": name, "unit": "us"}]
    return {"rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description="Make the results pages.")
    parser.add_argument("results", type=Path, nargs="+", help="one result or summary per machine")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of benchmarks.md")
    arguments = parser.parse_args()
    found = kept(arguments.results)
    for folder in (FOLDER, "design", "guide"):
        (arguments.docs / folder).mkdir(exist_ok=True)
    if (ram := arguments.results[0].with_name("ram.json")).exists():
        plot(picture(read(ram)), arguments.docs / "guide" / "ram.svg")
    plots = {OVERVIEW: _overview(found, arguments.results[0])} | {
        case: found[case].result for case in PLOTS if case in found
    }
    for name, result in plots.items():
        if result["rows"]:
            plot(result, arguments.docs / FOLDER / f"{name}.svg")
    for name, text in pages(arguments.results).items():
        (arguments.docs / name).write_text(text)


if __name__ == "__main__":
    main()
