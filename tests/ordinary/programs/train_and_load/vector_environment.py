"""Environments step in processes, as vector environments do: commands and observations through pipes."""
# methods: fork server

import multiprocessing as mp
import sys

import numpy as np


class Environment:
    def __init__(self, seed, size=4):
        self.random, self.size, self.position = np.random.default_rng(seed), size, 0

    def reset(self):
        self.position = 0
        return self.observe()

    def step(self, action):
        self.position += int(action) + int(self.random.integers(2))
        done = self.position > 6
        return self.observe(), float(self.position), done, {"position": self.position}

    def observe(self):
        return np.full((self.size, self.size, 3), self.position, dtype="u1")


class Make:
    def __init__(self, seed):
        self.seed = seed

    def __call__(self):
        return Environment(self.seed)


def work(remote, parent_remote, make):
    parent_remote.close()
    environment = make()
    while True:
        command, data = remote.recv()
        if command == "step":
            observation, reward, done, info = environment.step(data)
            if done:
                info["last"] = observation
                observation = environment.reset()
            remote.send((observation, reward, done, info))
        elif command == "reset":
            remote.send(environment.reset())
        elif command == "attribute":
            remote.send(getattr(environment, data))
        else:
            remote.close()
            break


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    remotes, work_remotes = zip(*[context.Pipe() for _ in range(3)])
    processes = []
    for number, (remote, work_remote) in enumerate(zip(remotes, work_remotes)):
        process = context.Process(target=work, args=(work_remote, remote, Make(number)), daemon=True)
        process.start()
        processes.append(process)
        work_remote.close()
    for remote in remotes:
        remote.send(("reset", None))
    print(np.stack([remote.recv() for remote in remotes]).shape)
    kept = []
    for _ in range(8):
        for remote, action in zip(remotes, (0, 1, 2)):
            remote.send(("step", action))
        observations, rewards, done, infos = zip(*[remote.recv() for remote in remotes])
        kept.append(np.stack(observations))
        print(rewards, done, [int(info["last"].max()) for info in infos if "last" in info])
    print([array[:, 0, 0, 0].tolist() for array in kept])
    for remote in remotes:
        remote.send(("attribute", "size"))
    print([remote.recv() for remote in remotes])
    for remote in remotes:
        remote.send(("close", None))
    for process in processes:
        process.join()
    print([process.exitcode for process in processes])
