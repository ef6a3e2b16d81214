"""The programs in `examples` that use torch."""

from __future__ import annotations

import importlib.util
import json
import re
import sys

import pytest

from tests.helpers.children import run_command, run_example


def test_dataloader_example_prints_its_rates() -> None:
    done = run_example("dataloader.py", "0.5", timeout=110)
    assert done.stdout.startswith("batches a second: torch "), done
    assert not done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_set_is_decoded_once(method: str) -> None:
    done = run_example("cached_dataset.py", method)
    assert done.returncode == 0, done
    assert not done.stderr
    turns = re.findall(r"(.*): (\d+) decoded in \d+\.\d+ s\n", done.stdout)
    assert turns == [("first epoch", "200"), ("second epoch", "0"), ("another loader", "0")], done


def test_demo_runs_the_dataloader_with_and_without_the_integration() -> None:
    done = run_example("demo", "--workers", "2", "--seconds", "0.2", timeout=110)
    assert done.returncode == 0, done
    assert not done.stderr
    pattern = r"^torch's DataLoader: \d+ batches a second, \d+ after st\.install\(\"torch\"\)$"
    assert re.search(pattern, done.stdout, re.MULTILINE), done


@pytest.mark.thorough
def test_benchmark_measures_and_reports(tmp_path) -> None:
    command = [sys.executable, "-m", "bench", "dataloader", "--quick", "--rounds", "1", "--pin", "none"]
    done = run_command([*command, "--json", str(tmp_path / "result.json")], timeout=110)
    assert done.returncode in (0, 1), done  # the status shows if its goals were met
    found = json.loads((tmp_path / "result.json").read_text())["comparisons"]
    expected = {"sample", "batch", "ready batch", "copy of a batch"}
    expected |= {"batch of JPEGs"} if importlib.util.find_spec("PIL") else set()
    assert {one["what"].split(",")[0] for one in found} == expected
    assert len(done.stdout.splitlines()) == len(found) == 2 * len(expected), done
