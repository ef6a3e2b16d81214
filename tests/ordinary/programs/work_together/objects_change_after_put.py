"""A program puts an object, and changes it once it was received; the receiver has a copy of its own."""
# methods: fork server

import multiprocessing as mp
import sys

import numpy as np


def work(tasks, results):
    while (task := tasks.get()) is not None:
        for value in task.values():
            value[0] = -1
        results.put(task)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=work, args=(tasks, results))
    worker.start()
    for size in (3, 100_000):
        task = {"list": [1, 2, 3], "bytes": bytearray(b"abc"), "array": np.arange(size)}
        if size > 3:
            del task["bytes"]
        else:
            task["bytes"][0] = 1
            del task["bytes"]
        tasks.put(task)
        back = results.get()
        print(task["list"], back["list"], task["array"][:2], back["array"][:2], back["array"][-1])
        back["array"][1] = 7
        task["array"][1] = 8
        print(task["array"][:2], back["array"][:2])
    tasks.put(None)
    worker.join()
