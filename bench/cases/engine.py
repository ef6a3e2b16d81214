"""An engine that broadcasts steps and images to four ranks and waits for their answers, as vLLM's does.

    python -m bench engine [--json FILE] [--rounds N] [--quick] [--links NAME ...]

A round begins when the engine has filled the images and sends them, and ends when it has the answers of all
ranks. `step`: the output of a scheduler for 64 requests. `images`: four tensors of 4 MiB beside it, of which
a rank reads the first element. `images, copied`: each rank copies them into memory of its own. All links and
their ranks exist at the same time and take turns; vLLM's, whose ranks spin, comes after the others. The
engine has a processor, the ranks have another one together.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.comparison import Comparison, report
from bench.engine_links import LINKS, Link, Open, missing
from bench.model import Samples, Summary
from bench.options import Options, add_pin, add_rounds, program_parser
from bench.timing import without_collector

RANKS = 4
REQUESTS = 64
IMAGES, SHAPE = 4, (4, 512, 512)  # 4 MiB each
SPINNING = "vllm"


@dataclass(frozen=True)
class Load:
    """What is sent in a round; `goals` are the least ratios of other links' time to that of shmtensor."""

    name: str
    images: int
    copied: bool
    count: int  # rounds in a measurement
    goals: dict[str, float]


LOADS = (
    Load("step", 0, copied=False, count=400, goals={}),
    Load("images", IMAGES, copied=False, count=40, goals={"torch-queue": 20, "zmq": 10}),
    Load("images, copied", IMAGES, copied=True, count=20, goals={}),
)


def _output(step: int) -> dict[str, Any]:
    """Return what a scheduler decides for a step: tokens and new blocks of each request."""
    names = [f"request-{number}" for number in range(REQUESTS)]
    return {
        "step": step,
        "num_scheduled_tokens": dict.fromkeys(names, 1),
        "cached": {
            "ids": names,
            "new_blocks": [[step, n] for n in range(REQUESTS)],
            "computed": [step] * REQUESTS,
        },
        "finished": [],
    }


def _rank(rank: int, opened: Open, options: Options) -> None:
    """Answer each message, until one is None."""
    options.place(1)
    receive, answer = opened()
    private = np.ones(SHAPE, np.float32)
    while (message := receive()) is not None:
        output, images, copied = message
        arrays = [np.asarray(image) for image in images]
        if copied:
            for array in arrays:
                np.copyto(private, array)
        seen = [float(array[0, 0, 0]) for array in arrays]
        sampled = dict.fromkeys(output["num_scheduled_tokens"], rank)
        del message, images, arrays
        answer({"rank": rank, "step": output["step"], "seen": seen, "sampled": sampled})


@contextmanager
def _ranks(link: Link, options: Options) -> Iterator[None]:
    """Start the ranks of a link, and end them."""
    context = multiprocessing.get_context("spawn")
    processes: list[Any] = [
        context.Process(target=_rank, args=(rank, link.ends(rank), options), daemon=True)
        for rank in range(RANKS)
    ]
    try:
        for process in processes:
            process.start()
        link.connect()
        yield
        link.send(None)
    finally:
        for process in processes:
            if process.pid is not None:
                process.join(20)
                process.kill()
                process.join()
        link.close()


def _round(link: Link, load: Load, step: int) -> float:
    """Return the seconds from the message to the last answer."""
    images = [link.image(SHAPE) for _ in range(load.images)]
    for number, image in enumerate(images):
        np.asarray(image)[...] = step + number
    message = (_output(step), images, load.copied)
    start = time.perf_counter()
    link.send(message)
    answers = [link.answer() for _ in range(RANKS)]
    taken = time.perf_counter() - start
    expected = [float(step + number) for number in range(load.images)]
    assert sorted(answer["rank"] for answer in answers) == list(range(RANKS))
    assert all(answer["step"] == step and answer["seen"] == expected for answer in answers)
    return taken


def _measure(names: list[str], rounds: int, options: Options, samples: Samples) -> None:
    """Let links take turns; the first turn is discarded."""
    with ExitStack() as stack:
        links: dict[str, Link] = {}
        for name in names:
            links[name] = LINKS[name][0](RANKS)
            stack.enter_context(_ranks(links[name], options))
        step = 0
        for turn in range(rounds + 1):
            for name, link in links.items():
                for load in LOADS:
                    times = []
                    with without_collector():
                        for _ in range(2 if options.quick else load.count):
                            step += 1
                            times.append(_round(link, load, step))
                    if turn:
                        samples.add(name, load.name, {"round": Summary.of(times).median})


def _comparisons(samples: Samples, names: list[str]) -> Iterator[Comparison]:
    for load in LOADS:
        ours = samples.values("shmtensor", load.name, "round")
        for name in names:
            times = samples.values(name, load.name, "round")
            yield Comparison(f"{load.name}, {name}", ours, times, load.goals.get(name), "us")


def main(arguments: list[str]) -> int:
    """Measure and print; the exit status is 1 if a goal was missed."""
    parser = program_parser("engine", __doc__)
    add_rounds(parser, 9, "turns of each link", "few measurements")
    add_pin(parser)
    parser.add_argument("--links", nargs="+", choices=LINKS, default=list(LINKS), help="beside shmtensor")
    chosen = parser.parse_args(arguments)
    options = Options(quick=chosen.quick, pin=chosen.pin)
    options.place(0)
    wanted = list(dict.fromkeys(["shmtensor", *chosen.links]))
    absent = {name: package for name in wanted if (package := missing(name)) is not None}
    names = [name for name in wanted if name not in absent]
    samples = Samples()
    for group in ([name for name in names if name != SPINNING], [name for name in names if name == SPINNING]):
        _measure(group, chosen.rounds, options, samples)
    for name, package in absent.items():
        print(f"without {name}: {package} is not installed")
    return report(list(_comparisons(samples, [name for name in names if name != "shmtensor"])), chosen.json)
