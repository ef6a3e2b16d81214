"""A generator of items that do not all fit into memory: the pool takes them as its workers need them."""
# methods: fork spawn server

import multiprocessing as mp
import sys

import numpy as np

made = []


def start(given):
    global permits
    permits = given


def work(array):
    permits.acquire()
    return array.nbytes


def items():
    for number in range(60):
        made.append(number)
        yield np.zeros(1_000_000, "u1")


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    permits = mp.Semaphore(0)
    with mp.Pool(2, start, (permits,)) as pool:
        results = pool.imap_unordered(work, items())
        for count in range(1, 8):
            permits.release()
            size = next(results)
            print(size, sum(range(1_000_000)), len(made) <= count + 8)
        for _ in range(60):
            permits.release()
        print(sum(results), len(made))
    with mp.Pool(2) as pool:
        print(sum(pool.imap(len, (np.zeros(300_000, "u1") for _ in range(20)))))
