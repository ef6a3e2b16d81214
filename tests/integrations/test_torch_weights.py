"""Weights of a trainer in host memory, whose processes are killed; `test_torch_cuda.py` has them on a GPU."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from tests.cuda.test_libraries import WEIGHT_PROGRAMS
from tests.helpers.children import EXAMPLES, clean_environment, importing_tests, run_python
from tests.integrations.programs import succeed

GENERATIONS = 100  # they take longer than the first kill


@pytest.mark.parametrize("name", [name for name in WEIGHT_PROGRAMS if name != "example"])
def test_program(name) -> None:
    call = f"from tests.cuda.torch_weights import {name} as f\nif __name__ == '__main__':\n    f()"
    done = run_python(call, env=importing_tests())
    assert done.returncode == 0, done
    assert not done.stderr


def run_with_kills(program: subprocess.Popen) -> tuple[dict[str, list[int]], list[int]]:
    """Kill an engine after some generations, and the trainer as the next engine starts.

    Returns the numbers of the processes, and of the generations that the trainer has printed.
    """
    pids: dict[str, list[int]] = {"train": [], "serve": []}
    generations: list[int] = []
    for line in program.stdout:
        if found := re.fullmatch(r"(train|serve)\(\d+\) is process (\d+)\n", line):
            pids[found[1]].append(int(found[2]))
            if found[1] == "serve" and len(pids["serve"]) == 3:
                os.kill(pids["train"][0], signal.SIGKILL)
        elif found := re.fullmatch(r"generation (\d+): loaded after \d+\.\d ms\n", line):
            generations.append(int(found[1]))
            if generations == [1, 2, 3]:
                os.kill(pids["serve"][1], signal.SIGKILL)
    return pids, generations


def test_example_goes_on_after_kills() -> None:
    """An engine and the trainer start again: with the newest weights, and after the last generation."""
    command = [sys.executable, str(EXAMPLES / "weight_sync.py"), str(GENERATIONS)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=clean_environment(), start_new_session=True, **pipes) as program:
        deadline = threading.Timer(100, os.killpg, (program.pid, signal.SIGKILL))
        deadline.start()
        try:
            pids, generations = run_with_kills(program)
            errors = program.stderr.read()
            program.wait()
        finally:
            deadline.cancel()
            if program.returncode is None:
                os.killpg(program.pid, signal.SIGKILL)
    assert program.returncode == 0, errors
    assert not errors
    assert [len(pids[name]) for name in ("train", "serve")] == [2, 3]
    assert generations == sorted(set(generations))
    assert generations[-1] == GENERATIONS
    # The next trainer does not publish again what the killed one had published, but not printed.
    assert len(generations) >= GENERATIONS - 1


def test_buckets_reach_engines_and_a_killed_one_holds_nobody_up() -> None:
    command = [sys.executable, str(EXAMPLES / "weight_buckets.py"), "30"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = clean_environment() | {"OMP_NUM_THREADS": "1"}  # threads of torch spin
    engines, reached = [], []
    with subprocess.Popen(command, env=environment, **pipes) as program:
        deadline = threading.Timer(100, program.kill)
        deadline.start()
        for line in program.stdout:
            if found := re.fullmatch(r"an engine is process (\d+)\n", line):
                engines.append(int(found[1]))
            elif found := re.fullmatch(r"generation (\d+): in (\d) engines after \d+\.\d ms\n", line):
                reached.append((int(found[1]), int(found[2])))
                if len(reached) == 5:
                    os.kill(engines[0], signal.SIGKILL)
        errors = program.stderr.read()
        program.wait()
        deadline.cancel()
    assert program.returncode == 0, errors
    assert not errors
    assert [generation for generation, _ in reached] == list(range(1, 31))
    assert [count for _, count in reached[:5]] == [2] * 5
    assert reached[-1][1] == 1


def test_buckets_need_little_memory_and_late_engines_wait_for_a_whole_generation() -> None:
    succeed("weight_buckets.py", env={"OMP_NUM_THREADS": "1"})
