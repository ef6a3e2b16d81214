"""The iterable of the tasks raises, has no length, or is not iterable."""
# methods: fork forkserver

import multiprocessing as mp
import sys


def numbers(count):
    for number in range(count):
        yield number
    raise ConnectionError("the source ended")


def attempt(call):
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__, error)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2) as pool:
        attempt(lambda: pool.map(abs, numbers(3)))
        iterator = pool.imap(abs, numbers(3))
        for _ in range(5):
            attempt(lambda: next(iterator))
        attempt(lambda: sorted(pool.imap_unordered(abs, numbers(0))))
        attempt(lambda: pool.map(abs, 7))
        attempt(lambda: list(pool.imap(abs, None)))
        attempt(lambda: pool.starmap(pow, [1, 2]))
        attempt(lambda: pool.starmap(pow, [(2, 3), (2, 3, 4, 5)]))
        attempt(lambda: pool.map(abs, numbers(0)))
        attempt(lambda: pool.map(abs, [-3, -4]))
