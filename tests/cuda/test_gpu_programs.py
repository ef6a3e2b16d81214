"""What is meant for a GPU runs on the simulator, whose answers are the rules it was built by."""

from __future__ import annotations

import json
import sys

import pytest

from tests.cuda.harness import Machine
from tests.helpers.children import run_command


@pytest.fixture
def simulator(tmp_path) -> Machine:
    (tmp_path / "memory").mkdir()
    return Machine("sim", tmp_path / "memory")


def run(program: str, simulator: Machine, *options: str) -> str:
    done = run_command(
        [sys.executable, "-m", f"bench.gpu.{program}", *options], timeout=100, env=simulator.env
    )
    assert done.returncode == 0, done
    return done.stdout


def test_the_questions(simulator, tmp_path) -> None:
    table = run("facts", simulator, "--json", str(tmp_path / "facts.json"))
    assert table.startswith("answers of the SIMULATED driver")
    answers = json.loads((tmp_path / "facts.json").read_text())["answers"]
    assert answers["question_1"] == {"exit": 1, "kill": 1, "free": 1}
    assert answers["question_2"] == {"before": 7, "after": 7}
    assert answers["question_3"] == {"import": 0}
    assert answers["question_6"]["interior is the same"]
    assert set(answers["question_7"].values()) == {3}
    assert answers["question_8"]["open own"] == 201
    assert (
        answers["question_9"]
        == {
            "equal PIDs": 201,
            "own /dev/shm": {"memory": 0, "event": 0},
        }
        or "cannot ask" in answers["question_9"]
    )
    assert answers["question_10"] == {"destroyed before": 1}
    assert len(answers) == 14, "all that can be asked of a simulator"


def test_a_killed_consumer_leaves_no_byte(simulator, tmp_path) -> None:
    run("deaths", simulator, "--rounds", "2", "--json", str(tmp_path / "deaths.json"))
    found = json.loads((tmp_path / "deaths.json").read_text())
    assert found["simulated"]
    assert found["own"] == found["users"] == {"bytes left": 0}


def test_no_time_is_taken_of_a_simulated_driver(simulator) -> None:
    done = run_command([sys.executable, "-m", "bench.gpu.round_trip"], timeout=60, env=simulator.env)
    assert done.returncode == 2
    assert "say nothing" in done.stderr
