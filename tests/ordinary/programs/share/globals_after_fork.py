"""Forked workers see what the program has loaded before; what they change stays theirs."""
# methods: fork

import multiprocessing as mp
import sys

import numpy as np

DATA, CACHE = None, {}


def row_sum(row):
    CACHE[row] = float(DATA[row].sum())
    return CACHE[row], sorted(CACHE)[-1]


def closure_over(value):
    def work(queue):
        value.append("child")
        queue.put([value, DATA.shape])

    return work


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    DATA = np.arange(40_000.0).reshape(4, -1)
    with mp.Pool(2) as pool:
        print([total for total, _ in pool.map(row_sum, range(4), chunksize=1)], CACHE)
        DATA = None
        print(pool.apply(row_sum, (1,))[0])
    value, queue = ["parent"], mp.Queue()
    DATA = np.ones((2, 3))
    process = mp.Process(target=closure_over(value), args=(queue,))
    process.start()
    print(queue.get(), value)
    process.join()
