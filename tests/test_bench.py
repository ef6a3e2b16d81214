"""Every benchmark runs, and its results have the right form. Speed is not checked here."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import harness
from bench.cases import CASES, PROGRAMS, load_case
from bench.cases.scale import FIGURES
from bench.comparison import Comparison, report
from bench.model import Goal, Row, Samples, Summary
from bench.options import Options
from bench.peers import PEERS, missing
from bench.performance import LINES, PAGES, Figure, machines, table, with_figures
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


def test_pages_show_stored_measurements() -> None:
    """`python -m bench.performance` writes them; a mark that it does not find would keep old figures."""
    for page in PAGES:
        text = page.read_text()
        found = machines()
        assert with_figures(page.name, text, found) == text
        assert with_figures(page.name, re.sub(r"[\d.]+ us", "9 us", text), found) == text


class _Ones(dict):
    """A measurement of anything: one."""

    def __missing__(self, key: str) -> float:
        return 1.0


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.what)
def test_line_of_the_pages_names_what_is_measured(line) -> None:
    """A line whose row was renamed would be left out."""
    names = {(line.row, peer) for peer in (line.ours, *line.others.values())}
    if line.source in CASES:
        case = load_case(line.source)
        samples = Samples()
        for peer in case.peers:
            for variant in case.variants(peer, Options()):
                samples.add(peer, variant, _Ones({f"kill {i}": 1.0 for i in range(200)}))
        assert names <= {(row.what, row.peer) for row in case.rows(samples)}
    else:
        stored = {key for machine in machines() for key in machine.figures}
        assert {(line.source, row, peer) for row, peer in names} <= stored


def test_line_without_a_result_is_left_out(tmp_path) -> None:
    record = json.loads((ROOT / "bench/results/intel-xeon.json").read_text())
    record["results"] = [result for result in record["results"] if result["case"] == "alloc"]
    (tmp_path / "intel-xeon.json").write_text(json.dumps(record))
    lines = table(machines(tmp_path)).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("|**Intel Xeon, 2 processors, ")
    assert re.match(r"\|make and release a tensor of 4 KiB\|[\d.]+ us\|torch [\d.]+ us, ", lines[3])


def test_figures_are_written_with_two_digits() -> None:
    times = {0.09: "0.09 us", 3.54: "3.5 us", 573.2: "573 us", 9_995: "10 ms", 6_241_000: "6.2 s"}
    assert [str(Figure(value)) for value in times] == list(times.values())
    assert str(Figure(5265.2, "bytes")) == "5,265 bytes"
    assert str(Figure(200_000, "tensors")) == "over 200,000"


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
