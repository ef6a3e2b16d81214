"""A service whose workers are killed and replaced: `python -m tests.stress.queue_service --kills 400`.

The parent puts tensors into one queue and gets answers from another. Each worker is killed after some
items. `--minutes` bounds the run by time instead. The parent never collects garbage. Its private memory, its
descriptors and the shared memory of the session, when all answers were received, are compared between the
first quarter of the run and the end.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import queue
import random
import signal
import sys
import time
from dataclasses import dataclass

import numpy as np

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.live_resources import live_tickets

WORKERS = 4
SIZE = 50_000  # words of 8 bytes
WAIT = 60.0


@dataclass(frozen=True)
class Use:
    """What the parent, and the session, use while no message is unread."""

    private: int
    descriptors: int
    mappings: int
    blocks: int
    shared: int
    tickets: int

    @classmethod
    def now(cls) -> Use:
        with open("/proc/self/status") as file:
            (private,) = [int(line.split()[1]) for line in file if line.startswith("RssAnon:")]
        with open("/proc/self/maps") as file:
            mappings = sum(1 for _ in file)
        stats = st.stats()
        descriptors = len(os.listdir("/proc/self/fd"))
        return cls(private, descriptors, mappings, stats["blocks"], stats["bytes_live"], live_tickets())

    def grown(self, before: Use) -> list[str]:
        """Return what is more than before. Private memory may grow by 1 MiB.

        The arena of each living worker may be mapped, with a descriptor, or not yet.
        """
        margins = {"private": 1024, "descriptors": WORKERS, "mappings": 4 * WORKERS}
        return [
            f"{name}: {getattr(before, name)} -> {getattr(self, name)}"
            for name in vars(self)
            if getattr(self, name) > getattr(before, name) + margins.get(name, 0)
        ]


def work(tasks: st.Queue, answers: st.Queue) -> None:
    for number, tensor in tasks:
        tensor *= 2
        answers.put((number, tensor, os.getpid()))
        del tensor


class OpenTasks:
    """The tasks without an answer. It forgets those whose answer cannot come any more, so it stays small."""

    def __init__(self) -> None:
        self.missing: set[int] = set()
        self.given_up: set[int] = set()  # those that killed workers had, unless they come late
        self.forgotten = 0
        self.last: dict[int, int] = {}  # of each living worker: the last task that it answered

    @property
    def awaited(self) -> int:
        return len(self.missing) - len(self.given_up)

    @property
    def lost(self) -> int:
        return self.forgotten + len(self.missing)

    def replace(self, dead: int, worker: int) -> None:
        self.last.pop(dead, None)
        self.last[worker] = 0

    def note(self, number: int, worker: int) -> None:
        self.missing.remove(number)  # raises if there was an answer before
        self.given_up.discard(number)
        if worker in self.last:
            self.last[worker] = number
        self.forget()

    def give_up(self) -> None:
        self.given_up |= self.missing

    def forget(self) -> None:
        """Forget the tasks before the last answer of each living worker.

        Both queues keep the order, so none of these workers has such a task; neither has a dead one put its
        answer after theirs.
        """
        first = min(self.last.values())
        for number in [number for number in self.given_up if number < first]:
            self.missing.remove(number)
            self.given_up.remove(number)
            self.forgotten += 1


class Service:
    """Threads: one."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tasks: st.Queue = st.Queue()
        self.answers: st.Queue = st.Queue()
        self.open_tasks = OpenTasks()
        self.workers = [self.start() for _ in range(WORKERS)]
        self.number = self.answered = self.kills = 0

    def start(self, dead: int = 0) -> int:
        if (pid := os.fork()) == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            work(self.tasks, self.answers)
            os._exit(0)
        self.open_tasks.replace(dead, pid)
        return pid

    def exchange(self, items: int) -> None:
        """Put some tensors and receive answers; kill and replace a worker in between."""
        first = self.number
        for self.number in range(first + 1, first + items + 1):
            self.tasks.put((self.number, st.full(SIZE, self.number, np.int64)))
        time.sleep(self.rng.random() * 0.01)
        victim = self.rng.randrange(WORKERS)
        os.kill(self.workers[victim], signal.SIGKILL)
        os.waitpid(self.workers[victim], 0)
        self.kills += 1
        self.workers[victim] = self.start(self.workers[victim])
        self.open_tasks.missing.update(range(first + 1, self.number + 1))
        while self.open_tasks.awaited:
            last = self.open_tasks.awaited == 1  # the worker that was killed may have had it
            try:
                self.check(*self.answers.get(timeout=0.3 if last else WAIT))
            except queue.Empty:
                assert last, "a living worker gives no answer"
                self.open_tasks.give_up()

    def check(self, number: int, tensor: st.Tensor, worker: int) -> None:
        array = tensor.numpy()
        assert array[0] == array[-1] == 2 * number, "another answer"
        self.open_tasks.note(number, worker)
        self.answered += 1

    def rest(self) -> Use:
        wait_until(lambda: st.stats()["processes"] == WORKERS + 1, WAIT, "the dead to be noticed")
        wait_until(self.tasks.empty, WAIT, "the tasks to be taken")
        time.sleep(0.5)
        while not self.answers.empty():
            self.check(*self.answers.get())  # a late one
        return Use.now()

    def end(self) -> None:
        self.tasks.shutdown()
        for pid in self.workers:
            os.waitpid(pid, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=400)
    parser.add_argument("--minutes", type=float, help="run so long, whatever the number of kills")
    parser.add_argument("--items", type=int, default=10, help="for each kill")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    gc.disable()
    service = Service(args.seed)
    began = time.monotonic()

    def run(part: float) -> None:
        """Run until so much of the run has been done."""
        while (
            service.kills < max(int(args.kills * part), 1)
            if args.minutes is None
            else time.monotonic() - began < args.minutes * 60 * part
        ):
            service.exchange(args.items)

    run(0.25)
    before = service.rest()
    run(1)
    after = service.rest()
    service.end()
    problems = after.grown(before)
    lost = service.open_tasks.lost
    if lost > service.kills:
        problems.append(f"{lost} answers lost by {service.kills} kills")
    print(f"{service.kills} kills, {service.answered} answers, {lost} lost\n{before}\n{after}")
    print("\n".join(problems) or "nothing grew")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
