"""Queues, pipes and locks as attributes of objects, in dicts, of an initializer, in partials."""
# methods: fork spawn

import functools
import multiprocessing as mp
import sys
from dataclasses import dataclass, field
from typing import Any

outbox = None


@dataclass
class Channels:
    inbox: Any
    outbox: Any
    extra: dict = field(default_factory=dict)


def work(channels, finished):
    channels.outbox.put([channels.inbox.get(), channels.extra["pipe"].recv()])
    finished.set()


def keep(queue):
    global outbox
    outbox = queue


def put_square(number):
    outbox.put(number * number)


def put_scaled(scale, results, number):
    results.put(scale * number)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    reader, writer = mp.Pipe(False)
    channels = Channels(mp.Queue(), mp.SimpleQueue(), {"pipe": reader})
    finished = mp.Event()
    process = mp.Process(target=functools.partial(work, finished=finished), kwargs={"channels": channels})
    process.start()
    channels.inbox.put("question")
    writer.send("by pipe")
    print(channels.outbox.get())
    finished.wait()
    process.join()
    results = mp.Queue()
    with mp.Pool(2, keep, (results,)) as pool:
        pool.map(put_square, range(5))
        # Before the pool ends: the standard library loses what its workers have not written yet.
        print(sorted(results.get() for _ in range(5)))
    with mp.Manager() as manager, mp.Pool(2) as pool:
        shared = manager.Queue()
        pool.map(functools.partial(put_scaled, 10, shared), range(4))
        print(sorted(shared.get() for _ in range(4)))
