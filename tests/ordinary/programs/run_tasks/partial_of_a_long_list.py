"""Each task gets the same long list by a partial; its repr would take longer than the task."""

import multiprocessing as mp
import sys
from functools import partial


def pick(values, index):
    return values[index]


class Model:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self, value):
        return sum(self.weights) * value

    def __repr__(self):
        raise RuntimeError("a repr that must not be needed")


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    values = [float(i) for i in range(100_000)]
    with mp.Pool(2) as pool:
        print(list(pool.imap(partial(pick, values), range(10))))
        print(pool.map(Model([1, 2, 3]), range(4)))
