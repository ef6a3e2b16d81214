"""A process that makes more than fits into memory: it waits while nothing is read."""

import multiprocessing as mp
import sys
import time

import numpy as np


def make(queue, made):
    for number in range(150):
        queue.put(np.full(1_000_000, number % 100, "u1"))
        made.value = number + 1
    queue.put(None)


def wait_until_still(made):
    last = -1
    while made.value != last or last == 0:
        last = made.value
        time.sleep(0.3)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    queue, made = mp.SimpleQueue(), mp.Value("i")
    maker = mp.Process(target=make, args=(queue, made))
    maker.start()
    print(queue.get()[0])
    wait_until_still(made)
    print(made.value < 100)
    numbers = []
    while (array := queue.get()) is not None:
        numbers.append(int(array[-1]))
    print(len(numbers), sum(numbers))
    maker.join()
    print(maker.exitcode, made.value)
