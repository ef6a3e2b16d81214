"""Calls of an executor use a library that starts processes by the standard library."""

import multiprocessing as mp
import sys
from concurrent import futures
from concurrent.futures import ProcessPoolExecutor

library = __import__("multiprocessing")


def squares(count):
    with library.get_context("fork").Pool(2) as pool:
        return pool.map(square, range(count))


def square(number):
    return number * number


def more_squares(count):
    with futures.ProcessPoolExecutor(1, mp_context=library.get_context("fork")) as executor:
        return list(executor.map(square, range(count)))


if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=mp.get_context(sys.argv[1])) as executor:
        print(executor.submit(squares, 3).result())
        print(executor.submit(more_squares, 4).result())
