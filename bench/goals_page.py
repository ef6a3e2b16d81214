"""The page of the goals, met or missed, on every machine: docs/design/goals.md."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from bench.cases import PROGRAMS
from bench.comparison import Comparison
from bench.kept import Record, machine_of, over_pipes, read
from bench.queue_goals import GOALS as QUEUE_GOALS
from bench.report import markdown_table, number, ratio_of
from bench.summary import summary

__all__ = ["goals"]

HEAD = """# Goals

Made by `python -m bench.page` from the sources of the benchmarks and the result files. Of several sizes, a
cell has the least and the greatest figure. A ratio is to the case's baseline, a goal for the worst is for
the maximum, all others are for the median. **Bold** figures miss the goal; [Performance](performance.md)
gives the reasons.
"""

PROGRAMS_HEAD = """`python -m bench NAME` measures a program of another library with shmtensor and without
it, in turns. A figure is the median of the ratios of the rounds, with the extremes, and the median of both
times. The source of `NAME` describes each line.
"""


def _launch_table(record: Record) -> list[str]:
    lines = [
        (line["work"], line["wanted"], line["measured"] if line["ok"] else f"**{line['measured']}**")
        for line in record["table"]
    ]
    return markdown_table(("what", "goal", "measured"), lines)


def _beside(result: Path, what: str) -> Record | None:
    file = result.with_name(f"{result.stem}-{what}.json")
    return read(file) if file.exists() else None


def _figure(row: Record) -> tuple[float, str]:
    """Return the figure that a row's goal is about, as a number and as text."""
    of = row["goal"].split()[0]  # "ratio", "worst" or a comparison
    if of == "ratio":
        return row["ratio"], ratio_of(row)
    value = row["summary"]["most" if of == "worst" else "median"]
    return value, number(value)


def _measured(rows: Sequence[Record]) -> str:
    """Return the range of the figures of rows with one goal, and how many miss it."""
    figures = sorted(map(_figure, rows))
    missed = sum(not row["met"] for row in rows)
    if len(rows) == 1:
        return f"**{figures[0][1]}**" if missed else figures[0][1]
    text = f"{figures[0][1]} to {figures[-1][1]}"
    return f"{text}; **{missed} of {len(rows)} missed**" if missed else text


def _goals_table(records: Sequence[Record]) -> list[str]:
    """Return one line for each goal of a case, with a column per machine."""
    lines: dict[tuple[str, ...], list[list[Record]]] = {}
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
    return markdown_table(("case", "goal", *names), table)


def _queue_goals_table(records: Sequence[Record]) -> list[str]:
    """Return one line for each goal of queues and broadcasts, with a column per machine."""
    columns = [{result["case"]: result for result in record["results"]} for record in records]
    lines = []
    for goal in QUEUE_GOALS:
        found = [goal.measured(results) for results in columns]
        cells = ["" if one is None else one[0] if one[1] else f"**{one[0]}**" for one in found]
        lines.append((goal.what, f"{goal.goal} {goal.unit}", *cells))
    return markdown_table(("what", "goal", *(record["machine"]["processor"] for record in records)), lines)


def _source(file: Path, record: Record) -> str:
    pipes = [result["case"] for result in record["results"] if over_pipes(result)]
    note = f"; a queue of the drop-in was a pipe in {', '.join(pipes)}" if pipes else ""
    line = f"- `bench/results/{file.name}`: {machine_of(record)}{note}"
    return textwrap.fill(line, 110, subsequent_indent="  ", break_on_hyphens=False)


def _programs_table(result_files: Sequence[Path]) -> list[str]:
    """Return one line for each comparison of the separate programs, of the first machine that has them."""
    lines, sources = [], []
    for program in PROGRAMS:
        for file in result_files:
            record = _beside(file, program)
            if record is not None and "comparisons" in record:
                machine = record["machine"]
                load = machine["load_average"][0]
                sources.append(f"- {program}: {machine['processor']}, {record['date'][:10]}, load {load:.1f}")
                for one in (Comparison(**stored) for stored in record["comparisons"]):
                    figures = one.figures() if one.met else f"**{one.figures()}**"
                    goal = "" if one.goal is None else f"{one.goal:g} times"
                    lines.append((f"{program}: {one.what}", goal, figures))
                break
    if not lines:
        return []
    table = markdown_table(("what", "goal", "measured"), lines)
    return ["## Programs of other libraries", "", PROGRAMS_HEAD, *sources, "", *table, ""]


def goals(result_files: Sequence[Path]) -> str:
    """Return the page of the goals as Markdown, with a column for each machine."""
    records = [summary([file]) for file in result_files]
    lines = [HEAD]
    lines += [_source(file, record) for file, record in zip(result_files, records, strict=True)]
    lines += ["", *_goals_table(records), ""]
    lines += ["## Queues and broadcasts", "", *_queue_goals_table(records), ""]
    lines += _programs_table(result_files)
    launch = _beside(result_files[0], "launch")
    if launch is not None:
        lines += ["## Starting workers", "", *_launch_table(launch), ""]
    return "\n".join(lines)
