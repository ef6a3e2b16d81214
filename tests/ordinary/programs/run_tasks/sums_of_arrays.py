"""A pool sums arrays, in order and as they are ready, and an exception comes back."""

import multiprocessing as mp
import sys

import numpy as np


def total(array):
    return float(array.sum())


def fail(text):
    raise KeyError(text)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    arrays = [np.full(100_000, value) for value in range(5)]
    with mp.Pool(2) as pool:
        print(pool.map(total, arrays))
        print(sorted(pool.imap_unordered(total, arrays)))
        try:
            pool.apply(fail, ("no such key",))
        except KeyError as error:
            print(repr(error))
