"""The simulation finds the failure of a wrong program, repeats it and prints its steps."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.simulation.mutations import mutations

ROOT = Path(__file__).parents[2]
SIMULATION = ROOT / "build" / "cpp" / "tests" / "simulation" / "shmtensor-simulation"
LOST = "an addition is lost"


def simulate(*options: str) -> subprocess.CompletedProcess[str]:
    command = [SIMULATION, "--program", "wrong/counter", "--seconds", "20", *options]
    return subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, timeout=100)


def repeated(output: str) -> str:
    found = re.search(r'--repeat "(.*)"', output)
    assert found, output
    return found[1]


def test_exhaustive_search_finds_the_fewest_deviations() -> None:
    done = simulate("--only", "exhaustive")
    assert done.returncode == 1
    assert LOST in done.stdout
    assert repeated(done.stdout) == "0:2p1", "the first process is preempted between its load and its store"


def test_failure_of_a_seed_is_shrunk_and_repeats() -> None:
    done = simulate("--only", "random", "--first-seed", "1")
    seed = re.search(r"--seed (\d+)", done.stdout)
    assert seed, done.stdout
    again = simulate("--seed", seed[1])
    assert repeated(again.stdout) == repeated(done.stdout)
    shrunk = simulate("--repeat", repeated(done.stdout), "--trace")
    assert shrunk.returncode == 1
    assert shrunk.stdout.rstrip().endswith(LOST)
    assert re.search(r"adder +store .* -> 1\n(.*\n)*.*adder +store ", shrunk.stdout), "each adder stores 1"


def test_right_run_of_a_wrong_program_passes() -> None:
    done = simulate("--repeat", "")
    assert done.returncode == 0, done.stdout


def test_mutations_fit_the_sources() -> None:
    planted = mutations()
    assert len(planted) > 120
    for one in planted:
        source = (ROOT / one.file).read_text()
        assert one.plant(source) != source
