"""Vector environments of Gymnasium and Stable-Baselines3, with the drop-in and with the standard library.

    python -m bench environments [--json FILE] [--rounds N]

The two modules that start processes run twice: unchanged, and with imports that name the drop-in. Both have
four environments, on two processors, and take short turns. An environment has images of 28 KB, and works for
0, 0.1 or 1 ms in a step. Times are of a step of all four. With shared memory, Gymnasium's default, images do
not travel through pipes.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from bench.comparison import Comparison, report
from bench.options import Options, add_rounds, program_parser

COUNT = 4
WORKS = {"0": 0.0, "0.1 ms": 1e-4, "1 ms": 1e-3}
SHAPE = (84, 84, 4)
GYMNASIUM = "gymnasium.vector.async_vector_env"
STABLE_BASELINES = "stable_baselines3.common.vec_env.subproc_vec_env"
GOAL = 1.3
TURNS = 5
WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "AsyncVectorEnv, shared memory": (GYMNASIUM, "AsyncVectorEnv", {"context": "fork"}),
    "AsyncVectorEnv, pipes": (GYMNASIUM, "AsyncVectorEnv", {"context": "fork", "shared_memory": False}),
    "SubprocVecEnv": (STABLE_BASELINES, "SubprocVecEnv", {"start_method": "fork"}),
}
_IMPORT = re.compile(r"^(import|from) multiprocessing\b", re.MULTILINE)
_PLAIN = re.compile(r"^(import shmtensor\.multiprocessing)$", re.MULTILINE)


class Game(gymnasium.Env[Any, Any]):
    """A game without an end, whose step works for a while."""

    def __init__(self, work: float) -> None:
        self.work = work
        self.observation_space = gymnasium.spaces.Box(0, 255, SHAPE, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(4)
        self._image = np.zeros(SHAPE, np.uint8)

    def reset(self, **_options: Any) -> Any:
        return self._image, {}

    def step(self, _action: Any) -> Any:
        end = time.thread_time() + self.work  # of this process, not of those with which it shares a processor
        while self.work and time.thread_time() < end:
            pass
        self._image[0] += 1
        return self._image, 1.0, False, False, {}


def load(name: str, *, changed: bool) -> Any:
    """Return a copy of a module; if `changed`, its imports name the drop-in."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text()
    if changed:
        text, count = _IMPORT.subn(r"\1 shmtensor.multiprocessing", text)
        assert count
        text = _PLAIN.sub(r"\1 as multiprocessing", text)
    module = types.ModuleType(name.rpartition(".")[2] + ("_changed" if changed else "_unchanged"))
    sys.modules[module.__name__] = module
    exec(compile(text, spec.origin, "exec"), module.__dict__)  # noqa: S102
    return module


def _start(way: str, work: float, *, changed: bool) -> Any:
    """Return the function that makes a number of steps, and that which ends the environments."""
    module, name, options = WAYS[way]
    environments = getattr(load(module, changed=changed), name)([partial(Game, work)] * COUNT, **options)
    environments.reset()
    actions = np.zeros(COUNT, np.int64)
    step: Callable[[Any], Any] = environments.step

    def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            step(actions)
        return (time.perf_counter() - start) / count

    return run, environments.close


def _measure(way: str, work: float, rounds: int, seconds: float) -> Any:
    """Return the times of a step: with the drop-in, and with the standard library.

    A time is the least of a few short turns: five processes on two processors suffer from any other.
    """
    ours, theirs = (_start(way, work, changed=changed) for changed in (True, False))
    count = max(int(seconds / theirs[0](3)), 1)
    seen = []
    for _ in range(rounds + 1):
        turns = [[run(count) for run, _ in (ours, theirs)] for _ in range(TURNS)]
        seen.append([min(times) for times in zip(*turns, strict=True)])
    for _, close in (ours, theirs):
        close()
    return zip(*seen[1:], strict=True)


def main(arguments: list[str]) -> int:
    """Measure and print; the exit status is 1 if a goal was missed."""
    parser = program_parser("environments", __doc__)
    add_rounds(parser, 9, "measurements of each", "few steps")
    chosen = parser.parse_args(arguments)
    os.sched_setaffinity(0, Options().processors[:2])
    found = []
    for way, (module, _, _) in WAYS.items():
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            print(f"{way}: {module.partition('.')[0]} is not installed")
            continue
        for name, work in WORKS.items():
            ours, theirs = _measure(way, work, chosen.rounds, 0.01 if chosen.quick else 0.04)
            found.append(Comparison(f"{way}, work {name}", ours, theirs, GOAL if work == 0 else 1.0, "us"))
    return report(found, chosen.json)
