"""Workers draw random numbers by seeds of their own: by task, by an initializer, by a seed sequence."""
# methods: fork server

import multiprocessing as mp
import random
import sys

import numpy as np

generator = None


def start(seeds):
    global generator
    generator = np.random.default_rng(seeds.get())


def draw(_):
    return float(generator.random())


def by_task(seed):
    random.seed(seed)
    np.random.seed(seed)
    return random.randrange(1000), int(np.random.randint(1000)), random.Random(seed).random()


def by_generator(own):
    return own.integers(0, 100, 3).tolist(), own.bit_generator.state["bit_generator"]


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2) as pool:
        print(pool.map(by_task, [1, 2, 1]))
        children = np.random.SeedSequence(5).spawn(3)
        generators = [np.random.default_rng(child) for child in children]
        print(pool.map(by_generator, generators), [int(own.integers(0, 100)) for own in generators])
        print(pool.map(by_generator, [np.random.Generator(np.random.MT19937(3))]))
    seeds = mp.Queue()
    for seed in range(2):
        seeds.put(seed)
    with mp.Pool(2, start, (seeds,)) as pool:
        expected = {float(value) for seed in range(2) for value in np.random.default_rng(seed).random(10)}
        print(set(pool.map(draw, range(8), chunksize=1)) <= expected)
