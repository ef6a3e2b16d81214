"""Workers compute gradients of their shards, the program averages them; parameters are broadcast."""
# methods: fork server

import multiprocessing as mp
import sys
from functools import partial

import numpy as np


def make_data(rows=400):
    features = np.random.default_rng(0).normal(size=(rows, 3))
    return features, features @ np.array([1.0, -2.0, 0.5])


def gradient(parameters, shard):
    features, targets = shard
    errors = features @ parameters["w"] - targets
    return {"w": 2 * features.T @ errors / len(targets)}, float((errors**2).mean())


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    features, targets = make_data()
    shards = [(features[i::4], targets[i::4]) for i in range(4)]
    parameters = {"w": np.zeros(3)}
    with mp.Pool(2) as pool:
        for step in range(30):
            gradients, losses = zip(*pool.map(partial(gradient, parameters), shards))
            parameters["w"] -= 0.2 * np.mean([found["w"] for found in gradients], axis=0)
            if step % 10 == 0:
                print(step, round(float(np.mean(losses)), 6))
    print(np.round(parameters["w"], 3))
