"""A callback raises; the results are there all the same, and later callbacks are called."""
# not compared: the standard library hangs

import multiprocessing as mp
import sys

totals = {}


def square(number):
    return number * number


def store(value):
    totals[value] = 10 // (value - 4)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2) as pool:
        results = [pool.apply_async(square, (number,), callback=store) for number in range(5)]
        print([result.get() for result in results])
    print(sorted(totals))

# > [0, 1, 4, 9, 16]
# > [0, 1, 9, 16]
