"""Environments of reinforcement learning in worker processes: python examples/vector_environments.py [STEPS].

The workers write observations and rewards into shared arrays, where the actor reads them; queues carry only
the actions. The program prints the steps of all environments a second, then those of workers that put what
they observe into queues of `multiprocessing`, which are pipes with pickles.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
from typing import Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp

WORKERS, EACH = 2, 8  # environments of each worker
SCREEN = (210, 160, 3)


class Catch:
    """A ball falls, and a paddle shall catch it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._screen, self._height, self._ball, self._paddle = np.zeros(SCREEN, np.uint8), 0, 50, 80

    def step(self, action: int) -> tuple[Any, float]:
        """Move the paddle by -1, 0 or 1; return the screen and the reward."""
        if self._height == 200:  # the episode has ended, another one begins
            self._height, self._ball = 0, self._random.randrange(156)
        self._height += 5
        self._paddle = min(max(self._paddle + 4 * action, 20), 140)
        self._screen[:] = 0
        self._screen[self._height : self._height + 4, self._ball : self._ball + 4] = 255
        self._screen[200:204, self._paddle - 20 : self._paddle + 20] = 128
        return self._screen, float(self._height == 200 and abs(self._paddle - self._ball) < 20)


def work(number: int, inbox: Any, outbox: Any, arrays: Any, shared: bool) -> None:
    """Step a worker's environments for each array of actions, and write into arrays what they return."""
    environments = [Catch(EACH * number + i) for i in range(EACH)]  # or gymnasium.make(...)
    observations, rewards = map(np.asarray, arrays)
    while (actions := inbox.get()) is not None:
        for i, environment in enumerate(environments):
            observations[i], rewards[i] = environment.step(int(actions[i]))
        outbox.put(None if shared else (observations, rewards))


def play(steps: int, shared: bool) -> tuple[float, int]:
    """Return the rate of steps, after the first, and the sum of the rewards."""
    zeros: Any = st.zeros if shared else np.zeros
    make_queue: Any = st.Queue if shared else multiprocessing.SimpleQueue
    observations, rewards = zeros((WORKERS, EACH, *SCREEN), "uint8"), zeros((WORKERS, EACH), "float64")
    queues = [(make_queue(), make_queue()) for _ in range(WORKERS)]
    workers = []
    for number, channels in enumerate(queues):
        arrays = observations[number], rewards[number]
        workers.append(mp.Process(target=work, args=(number, *channels, arrays, shared)))
        workers[-1].start()
    rng, rewarded, start = np.random.default_rng(0), 0.0, 0.0
    for step in range(steps + 1):
        if step == 1:
            start = time.perf_counter()
        actions = rng.integers(-1, 2, (WORKERS, EACH))  # a policy would use the observations
        for (inbox, _), row in zip(queues, actions, strict=True):
            inbox.put(row)
        for number, (_, outbox) in enumerate(queues):
            answer = outbox.get()
            if not shared:
                observations[number], rewards[number] = answer
        rewarded += float(np.asarray(rewards).sum())
    rate = WORKERS * EACH * steps / (time.perf_counter() - start)
    for (inbox, _), worker in zip(queues, workers, strict=True):
        inbox.put(None)
        worker.join()
    return rate, int(rewarded)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    ours, rewarded = play(count, shared=True)
    pickled, rewarded_again = play(count, shared=False)
    assert rewarded == rewarded_again, "the same games"
    print(f"steps a second: shared {ours:.0f}, pickled {pickled:.0f}; rewards {rewarded}")
