"""Twelve processes, at most three at a time, each starts when another has ended."""
# methods: fork forkserver server

import multiprocessing as mp
import sys
from multiprocessing.connection import wait


def work(number, results):
    results.put(number)
    sys.exit(number % 3)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    results, running, codes = mp.Queue(), {}, {}
    waiting = list(range(12))
    while waiting or running:
        while waiting and len(running) < 3:
            number = waiting.pop(0)
            process = mp.Process(target=work, args=(number, results))
            process.start()
            running[process.sentinel] = number, process
        for sentinel in wait(running):
            number, process = running.pop(sentinel)
            process.join()
            codes[number] = process.exitcode
    print(sorted(codes.items()))
    print(sorted(results.get() for _ in range(12)), mp.active_children())
