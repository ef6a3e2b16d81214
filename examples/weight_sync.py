"""A trainer's weights in two engines, without a copy for each: python examples/weight_sync.py [GENERATIONS].

The trainer publishes its `state_dict` as a generation, in place of the one before; the engines use the
published memory. An engine that starts late, or again, loads the newest one. Without a trainer the engines go
on, and the next one continues from it: kill any of the printed processes. Needs torch; uses a GPU, if any.
"""

from __future__ import annotations

import sys
import time
import zlib
from functools import partial
from typing import Any

import torch

import shmtensor as st
import shmtensor.multiprocessing as mp

DEVICE, ENGINES = "cuda" if torch.cuda.is_available() else "cpu", 2
# Returns the number of the newest generation in shared memory, which costs nothing to read.
newest_generation = partial(st.once, "weights/newest", partial(st.zeros, 1, "int64"))


def make_model() -> torch.nn.Module:
    """Return a model of 16 MiB."""
    return torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(16)))


def load(model: torch.nn.Module, *, assign: bool) -> int:
    """Load the newest generation and return its number; with `assign`, its memory becomes the model's."""
    generation, state = st.attach("weights")
    model.load_state_dict(state, assign=assign)
    return generation


def checksum(model: torch.nn.Module) -> int:
    """Return a checksum of all weights."""
    return sum(zlib.crc32(tensor.cpu().numpy()) for tensor in model.state_dict().values())


def train(generations: int, answers: Any) -> None:
    """Publish all generations that are missing; wait until the engines have loaded each."""
    st.install("torch", cuda=True)
    model, newest = make_model().to(DEVICE), newest_generation()
    done = load(model, assign=False) if newest[0] else 0
    for generation in range(done + 1, generations + 1):
        for parameter in model.parameters():  # in place of training
            parameter.data.copy_(torch.randn(parameter.shape))
        start, loaded = time.monotonic(), {}
        st.publish("weights", (generation, model.state_dict()))
        newest[0] = generation
        while len(loaded) < ENGINES:
            engine, number, when, total = answers.get(timeout=60)
            if number == generation:  # not an answer to the trainer before
                assert total == checksum(model)
                loaded[engine] = when - start
        print(f"generation {generation}: loaded after {max(loaded.values()) * 1e3:.1f} ms", flush=True)


def serve(engine: int, answers: Any) -> None:
    """Load each new generation, and answer with the time and a checksum."""
    st.install("torch", cuda=True)
    model = make_model().to("meta")  # without memory
    newest, generation = newest_generation(), 0
    while True:
        if newest[0] > generation:
            generation = load(model, assign=True)
            answers.put((engine, generation, time.monotonic(), checksum(model)))
        time.sleep(0.001)  # in place of requests


def main(generations: int = 10) -> None:
    """Run the trainer and the engines; start those again that fail or are killed."""
    answers, context = mp.Queue(), mp.get_context("spawn")
    jobs = [(train, generations), *((serve, engine) for engine in range(ENGINES))]
    running: list[Any] = [None] * len(jobs)
    while running[0] is None or running[0].exitcode != 0:
        for i, (job, number) in enumerate(jobs):
            if running[i] is None or running[i].exitcode:
                running[i] = context.Process(target=job, args=(number, answers), daemon=True)
                running[i].start()
                print(f"{job.__name__}({number}) is process {running[i].pid}", flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
