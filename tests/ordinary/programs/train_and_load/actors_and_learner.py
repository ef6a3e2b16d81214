"""Actors send rollouts through a bounded queue, the learner sends weights back through pipes."""
# methods: fork server

import multiprocessing as mp
import sys

import numpy as np


def act(number, rollouts, weights):
    version, values = 0, np.zeros(1000)
    for step in range(5):
        while weights.poll():
            version, values = weights.recv()
        rollouts.put(
            {"actor": number, "step": step, "version": version, "reward": np.full(500, number + step)}
        )
    while (message := weights.recv()) is not None:
        version, values = message
    rollouts.put({"actor": number, "last": version, "sum": float(values.sum())})


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    rollouts, pipes, actors = mp.Queue(4), [], []
    for number in range(2):
        reader, writer = mp.Pipe(duplex=False)
        actor = mp.Process(target=act, args=(number, rollouts, reader))
        actor.start()
        pipes.append(writer)
        actors.append(actor)
    weights, seen = np.zeros(1000), []
    for update in range(1, 11):
        rollout = rollouts.get()
        seen.append((rollout["actor"], rollout["step"], float(rollout["reward"].mean())))
        weights += 1
        for pipe in pipes:
            pipe.send((update, weights))
    for pipe in pipes:
        pipe.send(None)
    print(sorted(seen))
    print(sorted((last["actor"], last["last"], last["sum"]) for last in (rollouts.get() for _ in actors)))
    for actor in actors:
        actor.join()
        print(actor.exitcode)
