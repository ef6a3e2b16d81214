"""Environment, CPUs and output prefix of each worker."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest

import shmtensor.multiprocessing as mp
from tests.helpers.children import run_program, write_program

CPU = min(os.sched_getaffinity(0))


def see(rank, *names):
    return [os.environ.get(name) for name in names], sorted(os.sched_getaffinity(0))


def observe(start_method, *names, nprocs=2, **settings):
    return mp.start_processes(
        see, names, nprocs=nprocs, join=False, start_method=start_method, **settings
    ).results()


@pytest.mark.parametrize(
    "env",
    [
        [{"LAUNCH_A": "0"}, {"LAUNCH_A": "1"}],
        lambda rank: {"LAUNCH_A": str(rank)},
    ],
    ids=["sequence", "function"],
)
def test_environment_by_rank(start_method, env, monkeypatch) -> None:
    monkeypatch.setenv("LAUNCH_B", "kept")
    seen = [variables for variables, _ in observe(start_method, "LAUNCH_A", "LAUNCH_B", env=env)]
    kept = None if start_method == "forkserver" else "kept"  # its server keeps the environment of its start
    assert seen == [["0", kept], ["1", kept]]
    assert "LAUNCH_A" not in os.environ


def test_environment_for_all_and_removal(start_method) -> None:
    seen = observe(start_method, "LAUNCH_A", "HOME", env={"LAUNCH_A": "x", "HOME": None})
    assert [variables for variables, _ in seen] == [["x", None]] * 2


def see_hash_seed(rank):
    import sys

    return os.environ["PYTHONHASHSEED"], sys.flags.hash_randomization, hash("a string")


@pytest.mark.thorough
def test_spawned_workers_start_with_the_environment() -> None:
    """Observed through a variable that the interpreter reads when it starts."""
    env = [{"PYTHONHASHSEED": "0"}, {"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "0"}]
    first, second, third = mp.start_processes(see_hash_seed, nprocs=3, join=False, env=env).results()
    assert first == third
    assert first[0] == "0"
    assert first[2] != second[2]


@pytest.mark.parametrize(
    "affinity",
    [{CPU}, [{CPU}, {CPU}], [CPU, CPU], lambda rank: [CPU], [np.int64(CPU), np.array([CPU])]],
    ids=["set", "sets", "numbers", "function", "numpy"],
)
def test_affinity(start_method, affinity) -> None:
    assert [cpus for _, cpus in observe(start_method, affinity=affinity)] == [[CPU], [CPU]]
    assert len(os.sched_getaffinity(0)) >= 1


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"affinity": [{CPU}]}, ValueError, "affinity has 1 entries for 2 workers"),
        ({"affinity": {9999}}, ValueError, r"affinity names CPUs \[9999\]; this process may use"),
        ({"affinity": [[], [CPU]]}, ValueError, r"affinity names CPUs \[\]"),
        ({"affinity": {float(CPU)}}, TypeError, "a CPU must be an integer, not"),
        ({"affinity": 1.5}, TypeError, "affinity must be one for all workers.*got 1.5"),
        ({"env": [{}, {}, {}]}, ValueError, "env has 3 entries for 2 workers"),
        ({"env": {"A": 1}}, TypeError, "got 'A': 1"),
        ({"env": "A=1"}, TypeError, "env must be one for all workers.*got 'A=1'"),
        ({"start_method": "thread"}, ValueError, "thread"),
    ],
    ids=str,
)
def test_bad_settings_raise_before_anything_starts(settings, kind, text) -> None:
    with pytest.raises(kind, match=text):
        mp.spawn(see, nprocs=2, **settings)


PRINTS = """
    import os, sys
    import shmtensor.multiprocessing as mp

    def talk(rank):
        print("first")
        print("a", end=" ")
        print("b", flush=True, end="")
        print(" c")
        print("two\\nlines", file=sys.stdout)
        sys.stdout.write("no end of line")

    if __name__ == "__main__":
        for prefix in (True, "rank {rank}: "):
            mp.spawn(talk, nprocs=1, start_method=sys.argv[1], prefix_output=prefix)
            print()
        mp.spawn(talk, nprocs=1, start_method=sys.argv[1])
"""


def test_output_has_a_rank_prefix(start_method, tmp_path) -> None:
    done = run_program(write_program(tmp_path, PRINTS), start_method)
    assert done.returncode == 0, done.stderr
    lines = ["first", "a b c", "two", "lines", "no end of line"]
    prefixed = [f"{prefix}{line}" for prefix in ("[0] ", "rank 0: ") for line in lines]
    assert done.stdout.splitlines() == prefixed + lines


def test_output_lines_are_not_interleaved(tmp_path) -> None:
    program = """
        import shmtensor.multiprocessing as mp
        def talk(rank):
            for i in range(500):
                print("from", rank, "line", i)
        if __name__ == "__main__":
            mp.spawn(talk, nprocs=4, prefix_output=True)
    """
    done = run_program(write_program(tmp_path, program))
    lines = done.stdout.splitlines()
    assert sorted(lines) == sorted(f"[{rank}] from {rank} line {i}" for rank in range(4) for i in range(500))


def run_echo(rank, path) -> None:
    with open(path, "w") as file:
        subprocess.run(["echo", os.environ["LAUNCH_A"]], stdout=file, check=True)


def test_subprocesses_of_workers_inherit_the_environment(start_method, tmp_path) -> None:
    path = tmp_path / "out"
    mp.start_processes(run_echo, (str(path),), env={"LAUNCH_A": "inherited"}, start_method=start_method)
    assert path.read_text() == "inherited\n"


@pytest.mark.parametrize("size", [1, 100_000], ids=["short", "long"])
def test_immediate_interpreter_exit_is_a_worker_failure(size, monkeypatch) -> None:
    """Regression: a short message is written when the file is closed; that error left a zombie."""
    popen = subprocess.Popen

    def start_one_that_ends(command, **kwargs):
        started = popen(command, **kwargs | {"executable": "/bin/true"})
        os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
        return started

    monkeypatch.setattr(subprocess, "Popen", start_one_that_ends)
    with pytest.raises(mp.ProcessExitedException, match="exit code 0 before its function returned"):
        mp.start_processes(see, env={"LAUNCH_A": "x" * size}, start_method="spawn")
