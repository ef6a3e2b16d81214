"""Workers end after a number of tasks, because a library leaks memory."""
# methods: fork forkserver server

import multiprocessing as mp
import os
import sys

tasks_of_worker = 0


def work(_):
    global tasks_of_worker
    tasks_of_worker += 1
    return os.getpid(), tasks_of_worker


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2, maxtasksperchild=2) as pool:
        found = pool.map(work, range(8), chunksize=1)
    with mp.Pool(1, maxtasksperchild=1) as pool:
        single = [pool.apply(work, (0,))[1] for _ in range(3)]
        chunk = [count for _, count in pool.map(work, range(4), chunksize=4)]  # a chunk is a task
    # After the pools: their threads fork workers at any time, with what is printed and not yet written.
    print(len(set(found)), {count for _, count in found}, len({pid for pid, _ in found}) >= 4)
    print(os.getpid() in {pid for pid, _ in found})
    print(single, chunk)
    for wrong in (0, -1, "2"):
        try:
            mp.Pool(1, maxtasksperchild=wrong)
        except (ValueError, TypeError) as error:
            print(type(error).__name__)
