"""Every benchmark runs, and its results have the right form. Speed is not checked here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import harness
from bench.cases import CASES, PROGRAMS, load_case
from bench.cases.scale import FIGURES, table
from bench.comparison import Comparison, report
from bench.model import Goal, Row, Samples, Summary
from bench.options import Options
from bench.page import DOCS, pages
from bench.peers import PEERS, missing
from bench.queue_goals import GOALS as QUEUE_GOALS
from bench.report import cells
from bench.summary import summary

ROOT = Path(__file__).parent.parent
HERE = [peer for peer in ("shmtensor", "shmtensor-queue", "SharedMemory") if missing(peer) is None]
SLOW = {"syscalls"}  # under strace, an interpreter takes seconds to start


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        ["ram", "--records", "500", "--setups", "ours-server"],
        ["launch", "--rounds", "1", "--runs", "1", "--only", "one worker, server"],
    ],
    ids=lambda words: words[0],
)
def test_program_measures_and_reports(words, capfd) -> None:
    # The exit status shows if its goals were met, which is not checked here.
    assert command.main(words) in (0, 1)
    seen = capfd.readouterr()
    assert "ok" in seen.out or "MISS" in seen.out
    assert not seen.err


@pytest.mark.thorough
def test_engine_measures_and_reports(tmp_path, capfd) -> None:
    file = tmp_path / "result.json"
    words = ["engine", "--quick", "--rounds", "1", "--links", "shmtensor-copy", "--json", str(file)]
    assert command.main(words) == 0
    seen = capfd.readouterr()
    expected = [f"{load}, shmtensor-copy" for load in ("step", "images", "images, copied")]
    assert [line.split(":")[0].strip() for line in seen.out.splitlines()] == expected
    assert not seen.err
    stored = json.loads(file.read_text())["comparisons"]
    assert [Comparison(**one).what for one in stored] == expected


@pytest.mark.thorough
def test_scale_measures_and_reports(tmp_path, capfd) -> None:
    file = tmp_path / "result.json"
    assert command.main(["scale", "--quick", "--rounds", "2", "--json", str(file)]) == 0
    seen = capfd.readouterr()
    assert not seen.err
    lines = [line.split("|")[1:-1] for line in seen.out.splitlines()]
    assert lines[0] == ["members / blocks", "1 / 10", "3 / 30"]
    assert [line[0].split(" (")[0] for line in lines[2:]] == list(FIGURES)
    assert all(line[2] for line in lines), "all is measured with three"
    alone, three = json.loads(file.read_text())["sizes"]
    for name in ("manager, descriptors", "member, descriptors", "member, mappings"):
        assert alone[name] < three[name]


def test_page_of_scale_shows_stored_measurements() -> None:
    (file,) = kept("design/scale.md")
    lines = table(json.loads(file.read_text())["sizes"])
    assert "\n".join(lines) in (DOCS / "design" / "scale.md").read_text()


def test_comparison_states_its_goal(tmp_path, capsys) -> None:
    met = Comparison("a", [0.001, 0.001, 0.002], [0.01, 0.02, 0.01], 10)
    missed = Comparison("b", [0.001], [0.005], 10, "us")
    assert report([met], None) == 0
    assert report([met, missed, Comparison("c", [1.0], [1.0], None)], tmp_path / "result.json") == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "ok   a: 10.0 times (5.00 to 20.0); 1.00 ms against 10.0; wanted: 10",
        "MISS b: 5.00 times (5.00 to 5.00); 1,000 us against 5,000; wanted: 10",
        "     c: 1.00 times (1.00 to 1.00); 1,000 ms against 1,000",
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in CASES if name not in SLOW])
def test_case_measures_and_reports(name, tmp_path, capsys) -> None:
    case = load_case(name)
    file = tmp_path / "result.json"
    assert command.main([name, "--quick", "--rounds", "1", "--peers", *HERE, "--json", str(file)]) == 0
    record = json.loads(file.read_text())
    assert record["machine"]["processors"] >= 1
    assert {"python", "numpy", "shmtensor"} <= set(record["versions"])
    (result,) = record["results"]
    assert result["case"] == name
    assert not result["absent"]
    assert {sample["peer"] for sample in result["samples"]} == set(HERE) & set(case.peers)
    for sample in result["samples"]:
        assert sample["variant"] in case.variants(sample["peer"], Options(quick=True))
        assert all(value >= 0 for key, value in sample["measures"][0].items() if key != "bytes")
    assert case.summary in capsys.readouterr().out


@pytest.mark.parametrize("name", CASES)
def test_case_names_its_peers_and_variants(name) -> None:
    case = load_case(name)
    assert case.name == name
    assert "shmtensor" in case.peers
    assert set(case.peers) <= set(PEERS)
    for peer in case.peers:
        assert case.variants(peer, Options())
    assert case.rows(Samples()) == [], "nothing measured, nothing to show"


def test_missing_peer_is_named(monkeypatch, capsys) -> None:
    monkeypatch.setitem(PEERS, "torch-fd", ("torch_descriptor", "no_such_package"))
    assert command.main(["alloc", "--quick", "--rounds", "1", "--peers", "shmtensor", "torch-fd"]) == 0
    assert "without torch-fd: no_such_package is not installed" in capsys.readouterr().out


def test_peers_that_spin_are_measured_after_the_others(monkeypatch) -> None:
    """They would take processor time from the others, also between their turns."""
    monkeypatch.setattr(harness, "SPINNING_PEERS", ("shmtensor",))
    progress: list[str] = []
    peers = ("shmtensor", "shmtensor-fs", "SharedMemory")
    harness.run_case(load_case("alloc"), Options(quick=True), peers, 2, progress.append)
    assert [line.rpartition(" ")[2] for line in progress] == [*peers[1:] * 2, "shmtensor", "shmtensor"]


def test_list_option_and_unknown_case(capsys) -> None:
    assert command.main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*CASES, *PROGRAMS]
    assert command.main(["nothing"]) == 2


def test_each_process_is_pinned_to_its_own_processor(monkeypatch) -> None:
    """Regression: a partner, started by a pinned process, ran on the same processor."""
    pinned = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _pid, processors: pinned.append(processors))
    text = Options(processors=(3, 5)).to_text()
    for side in (0, 1):
        Options.from_text(text).place(side)
    Options(pin="together", processors=(3, 5)).place(1)
    Options(pin="none", processors=(3, 5)).place(1)
    Options(processors=(3,)).place(1)
    assert pinned == [{3}, {5}, {3}]


@pytest.mark.thorough
def test_results_page_contains_plots(tmp_path, capsys) -> None:
    file = tmp_path / "result.json"
    peers = ["shmtensor", "pickle", "SharedMemory"]
    words = ["alloc", "handover", "--quick", "--rounds", "1", "--peers", *peers, "--json", str(file)]
    assert command.main(words) == 0
    capsys.readouterr()
    shutil.copy(ROOT / "bench/results/ram.json", tmp_path)
    # matplotlib keeps its fonts open, so this is not done here.
    subprocess.run(
        [sys.executable, "-m", "bench.page", file, "--docs", tmp_path], cwd=ROOT, check=True, timeout=100
    )
    text = (tmp_path / "benchmarks" / "tensors.md").read_text()
    assert f"|us|{'|'.join(peers)}|" in text
    assert re.search(r"^\|4 KiB, fresh\|([\d.,]+\|){3}$", text, re.MULTILINE)
    assert "|handover|ratio <= 1.2|" in (tmp_path / "design" / "goals.md").read_text()
    for peer in peers:
        assert peer in (tmp_path / "benchmarks" / "handover.svg").read_text()
    assert "SharedList, spawn" in (tmp_path / "guide" / "ram.svg").read_text()


def kept(page: str) -> list[Path]:
    """Return the result files that a page names."""
    names = re.findall(r"bench/results/[\w-]+\.json", (DOCS / page).read_text())
    return [ROOT / name for name in dict.fromkeys(names)]


def test_results_page_shows_stored_measurements() -> None:
    """`python -m bench.page` writes the pages from the result files that they name."""
    written = pages(kept("design/goals.md"))
    assert len(written) == 5
    for name, text in written.items():
        assert text == (DOCS / name).read_text(), name


def test_goals_of_queues_are_computed_from_rows_of_several_peers() -> None:
    peers = {"shmtensor-queue": 2.0, "pickle": 50.0, "torch-fd": 180.0}
    rows = [
        {"what": what, "peer": peer, "unit": "us", "summary": {"median": time + step}, "p99": 20.5}
        for step, what in enumerate(("64 bytes", "1 KiB tensor", "8 MiB tensor"))
        for peer, time in peers.items()
    ]
    measured = [goal.measured({"queue": {"rows": rows}}) for goal in QUEUE_GOALS]
    assert measured[:5] == [("4.00", False), ("20.5", False), ("13.0", False), ("45.5", False), None]
    ours = {"what": "small ints", "peer": "shmtensor-queue", "unit": "us each", "summary": {"median": 0.4}}
    (rate,) = (goal for goal in QUEUE_GOALS if goal.unit == "million/s")
    assert rate.measured({"queue": {"rows": [ours]}}) == ("2.50", True)
    assert rate.measured({}) is None, "not measured"


def test_goals_of_queues_name_what_their_cases_measure() -> None:
    """A row that is renamed would be a goal that is never measured."""
    for goal in QUEUE_GOALS:
        case = load_case(goal.case)
        samples = Samples()
        for peer in case.peers:
            for variant in case.variants(peer, Options()):
                keys = ("time", "time p99", "futex", "used", "one")
                samples.add(peer, variant, dict.fromkeys(keys, 1.0))
        rows = [row.to_json() for row in case.rows(samples)]
        assert goal.measured({goal.case: {"rows": rows}}) is not None, goal.what


def test_page_names_results_that_were_measured_over_pipes(tmp_path) -> None:
    record = json.loads((ROOT / "bench/results/intel-xeon.json").read_text())
    file = tmp_path / "one.json"
    for date, noted in (("2026-11-23", True), ("2026-11-24", False)):
        result = record["results"][0] | {"date": date}
        file.write_text(json.dumps(record | {"results": [result]}))
        for name in ("benchmarks/tensors.md", "design/goals.md"):
            text = " ".join(pages([file])[name].split())
            assert ("a queue of the drop-in was a pipe" in text) == noted


def test_summary_keeps_all_rows_and_the_later_run(tmp_path) -> None:
    record = json.loads((ROOT / "bench/results/intel-xeon.json").read_text())
    later = record | {
        "date": "2030-01-01T00:00:00",
        "results": [record["results"][0] | {"date": "2030-01-01"}],
        "versions": record["versions"] | {"numpy": "9.0", "another": "1"},
    }
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file, content in zip(files, (record, later), strict=True):
        file.write_text(json.dumps(content))
    both = summary(files)
    assert [result["rows"] for result in both["results"]] == [result["rows"] for result in record["results"]]
    assert both["results"][0]["date"] == "2030-01-01"
    numpy = record["versions"]["numpy"]
    assert both["versions"] == record["versions"] | {"numpy": f"{numpy} and 9.0", "another": "1"}
    (tmp_path / "two.json").write_text(json.dumps(later | {"machine": {"processor": "another"}}))
    with pytest.raises(ValueError, match="one machine"):
        summary(files)


def test_summaries_goals_and_cells_are_formatted() -> None:
    summary = Summary.of([3.0, 1.0, 2.0], 10)
    assert (summary.median, summary.least, summary.most, summary.count) == (20, 10, 30, 3)
    assert Row("a", "b", "us", summary, goal=Goal(20)).met
    assert not Row("a", "b", "us", summary, goal=Goal(20, "most")).met
    assert Row("a", "b", "us", summary, 0.9, Goal(0.9, "ratio", at_least=True)).met
    row = Row("a", "b", "us", summary, 1.5, Goal(1.2, "ratio"))
    assert cells(row)[:6] == ("a", "b", "20.0", "", "10.0", "30.0")
    assert cells(row)[-3:] == ("1.50", "ratio <= 1.2", "MISSED")
