"""Actors with the newest weights of a learner: python examples/actor_learner.py [ACTORS]."""

import sys
import time

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp

SIZE, UPDATES = 4_000_000, 50


def act(weights: st.Latest, rewards: st.Queue) -> None:
    """Act with the newest weights until the learner has ended."""
    observation = np.ones(SIZE, "float32")
    while True:
        policy = weights.get()  # whole, however often the learner sets others meanwhile
        try:
            rewards.put((weights.received, float(observation @ policy["layer"].numpy())))
        except st.ShutDown:
            return


if __name__ == "__main__":
    weights, rewards = st.Latest({"layer": st.zeros(SIZE, "float32")}), st.Queue(maxsize=8)
    actors = [
        mp.Process(target=act, args=(weights, rewards))
        for _ in range(int(sys.argv[1]) if sys.argv[1:] else 2)
    ]
    for actor in actors:
        actor.start()
    ages, start = [], time.perf_counter()
    for _ in range(UPDATES):
        version, _reward = rewards.get()
        ages.append(weights.version - version)
        with weights.next() as new:  # memory of weights that no actor uses any more
            np.add(weights.get()["layer"].numpy(), 0.01, out=new["layer"].numpy())
    rate = UPDATES / (time.perf_counter() - start)
    rewards.shutdown(immediate=True)
    for actor in actors:
        actor.join()
    print(f"{rate:.0f} updates of {SIZE * 4 >> 20} MiB a second; actors were {np.mean(ages):.1f} behind")
