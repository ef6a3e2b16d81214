"""Environments of Gymnasium and Stable-Baselines3 in processes. Arguments: a folder, a start method, a case.

The folder has their modules, whose imports of multiprocessing may be changed.
"""

import os
import signal
import sys
import time
from functools import partial

import gymnasium
import numpy as np
from gymnasium import spaces

ENVIRONMENTS = 3
RAISE, KILL, WAIT = 7, 8, 9  # actions


class Images(gymnasium.Env):
    """Random images, each of which depends on those before; an episode has four steps."""

    def __init__(self, number=0):
        self.number = number
        self.action_space = spaces.Discrete(10)
        self.observation_space = spaces.Dict(
            {"image": spaces.Box(0, 255, (84, 84, 4), np.uint8), "step": spaces.Discrete(5)}
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {"options": options}

    def step(self, action):
        if self.number == 1 and action == RAISE:
            raise LookupError("an environment raises")
        if self.number == 1 and action == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == WAIT:
            time.sleep(60)
        self.steps += 1
        info = {"action": int(action), "noise": self.np_random.random(3)}
        return self._observation(), self.number + action / 10, self.steps == 4, False, info

    def _observation(self):
        return {"image": self.np_random.integers(0, 256, (84, 84, 4), np.uint8), "step": self.steps}

    def render(self):
        return np.full((4, 4, 3), self.number, np.uint8)

    def close(self):
        print("close", self.number, file=sys.stderr)


def shown(value):
    """Return a value without the bytes of its images."""
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(one) for one in value]
    if isinstance(value, np.ndarray) and value.size > 64:
        return value.dtype, value.shape, int(value.sum()), int(value.ravel()[::97].astype(int).sum())
    return value


def attempt(name, function, *arguments, **options):
    try:
        print(name, shown(function(*arguments, **options)))
    except Exception as error:
        print(name, type(error).__name__, error)


def gymnasium_environments(method, **options):
    from async_vector_env import AsyncVectorEnv

    makers = [partial(Images, number) for number in range(ENVIRONMENTS)]
    return AsyncVectorEnv(makers, context=method, **options)


def run_gymnasium(method, **options):
    """Run episodes, and use attributes."""
    environments = gymnasium_environments(method, **options)
    attempt("reset", environments.reset, seed=5, options={"a": 1})
    for turn in range(10):
        attempt("step", environments.step, (np.arange(ENVIRONMENTS) + turn) % RAISE)
    environments.set_attr("number", [4, 5, 6])
    attempt("number", environments.get_attr, "number")
    attempt("render", environments.render)
    attempt("reset", environments.reset, seed=6)
    attempt("close", environments.close)
    attempt("step", environments.step, np.zeros(ENVIRONMENTS, int))


def break_gymnasium(method, **options):
    """Let an environment raise, be killed, and take too long."""
    for action in (RAISE, KILL):
        environments = gymnasium_environments(method, **options)
        environments.reset(seed=5)
        attempt("break", environments.step, np.full(ENVIRONMENTS, action))
        environments.processes[1].join()
        attempt("close", environments.close, terminate=True)
        print(environments.processes[1].exitcode)
    environments = gymnasium_environments(method, **options)
    environments.reset(seed=5)
    environments.step_async(np.full(ENVIRONMENTS, WAIT))
    attempt("wait", environments.step_wait, timeout=0.1)
    attempt("close", environments.close, terminate=True)
    print([process.exitcode for process in environments.processes])


def stable_baselines_environments(method, numbers):
    from subproc_vec_env import SubprocVecEnv

    return SubprocVecEnv([partial(Images, number) for number in numbers], start_method=method)


def run_stable_baselines(method):
    """Run episodes, and use attributes."""
    environments = stable_baselines_environments(method, range(ENVIRONMENTS))
    environments.seed(5)
    attempt("reset", environments.reset)
    for turn in range(10):
        attempt("step", environments.step, (np.arange(ENVIRONMENTS) + turn) % RAISE)
    environments.set_attr("number", 4, indices=[1, 2])
    attempt("number", environments.get_attr, "number")
    attempt("method", environments.env_method, "get_wrapper_attr", "number", indices=2)
    attempt("wrapped", environments.env_is_wrapped, gymnasium.Wrapper)
    attempt("has", environments.has_attr, "other")
    attempt("images", environments.get_images)
    attempt("close", environments.close)


def break_stable_baselines(method):
    """Let an environment raise and be killed: one, since those forked after it keep its pipe open."""
    for action in (RAISE, KILL):
        environments = stable_baselines_environments(method, [1])
        environments.reset()
        attempt("break", environments.step, [action])
        environments.processes[0].join()
        attempt("send", environments.step_async, [0])
        print(environments.processes[0].exitcode)


CASES = {
    "shared": partial(run_gymnasium, shared_memory=True),
    "sent": partial(run_gymnasium, shared_memory=False, max_concurrency=1),
    "broken, shared": partial(break_gymnasium, shared_memory=True),
    "broken, sent": partial(break_gymnasium, shared_memory=False, max_concurrency=2),
    "processes": run_stable_baselines,
    "broken, processes": break_stable_baselines,
}

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    CASES[sys.argv[3]](sys.argv[2])
