"""A queue of a manager with priorities, a last-in-first-out list, and a wrapper with its own `get`."""
# methods: fork spawn

import multiprocessing as mp
import queue
import sys
from dataclasses import dataclass, field
from multiprocessing.managers import SyncManager


class Manager(SyncManager):
    pass


@dataclass(order=True)
class Job:
    priority: int
    name: str = field(compare=False)


def add(jobs):
    for priority, name in ((3, "low"), (1, "high"), (2, "middle")):
        jobs.put(Job(priority, name))


Manager.register("PriorityQueue", queue.PriorityQueue)
Manager.register("LifoQueue", queue.LifoQueue)

if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with Manager(ctx=mp.get_context()) as manager:
        jobs, stack = manager.PriorityQueue(), manager.LifoQueue(2)
        for target in (jobs, stack):
            if target is stack:
                stack.put(1)
                stack.put(2)
                print(stack.full(), stack.get(), stack.get(), stack.empty())
                continue
            process = mp.Process(target=add, args=(jobs,))
            process.start()
            process.join()
            print(jobs.qsize(), [jobs.get().name for _ in range(3)])
        try:
            jobs.get_nowait()
        except queue.Empty:
            print("empty")
