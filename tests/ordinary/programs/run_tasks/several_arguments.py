"""Functions with several arguments: `starmap`, keywords, partials, bound methods, classes, builtins."""
# methods: spawn server

import functools
import itertools
import math
import multiprocessing as mp
import operator
import sys


class Line:
    def __init__(self, slope):
        self.slope = slope

    def at(self, x, offset=0):
        return self.slope * x + offset

    @classmethod
    def steep(cls, slope):
        return cls(slope * 10).at(1)

    @staticmethod
    def flat(x):
        return x

    def __call__(self, x):
        return self.at(x)


def power(base, exponent=2):
    return base**exponent


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    line = Line(3)
    with mp.Pool(2) as pool:
        print(pool.starmap(power, [(2, 3), (3, 2), (4,)]))
        print(pool.starmap(power, zip(range(5), itertools.repeat(3))))
        print(pool.starmap_async(math.hypot, [(3, 4), (5, 12)], chunksize=1).get())
        print(pool.apply(power, (2,), {"exponent": 10}), pool.apply(power, kwds={"base": 3}))
        print(pool.map(functools.partial(power, exponent=3), [1, 2, 3]))
        print(pool.map(line.at, [1, 2]), pool.map(Line.steep, [1, 2]), pool.map(Line.flat, [1, 2]))
        print(pool.map(line, range(3)), [made.slope for made in pool.map(Line, [1, 2])])
        print(pool.map(len, ["a", "bb"]), pool.map(str.upper, ["x"]), pool.map("{}!".format, [1]))
        print(pool.map(operator.itemgetter(1), ["ab", "cd"]), pool.map(math.sqrt, (4.0, 9.0)))
