"""Results in order, as they come, and in chunks; iterators of results, also beyond their end."""
# methods: fork server

import multiprocessing as mp
import sys


def double(x):
    return 2 * x


def numbers(count):
    yield from range(count)


def attempt(iterator):
    try:
        return iterator.next(timeout=60)
    except StopIteration:
        return "end"


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(3) as pool:
        print(list(pool.imap(double, numbers(7))), list(pool.imap(double, numbers(7), chunksize=3)))
        print(sorted(pool.imap_unordered(double, numbers(50), 7)) == list(range(0, 100, 2)))
        print(pool.map(double, numbers(11), chunksize=4), pool.map(double, []), list(pool.imap(double, ())))
        print(pool.map_async(double, {3: "a", 5: "b"}).get(20), pool.map(double, "ab"))
        iterator = pool.imap(double, [1, 2])
        print([attempt(iterator) for _ in range(4)])
        print(dict(zip("abc", pool.imap(double, range(3)))), max(pool.imap_unordered(double, range(100))))
        first, *rest = pool.imap(double, range(4))
        print(first, rest, list(enumerate(pool.imap(double, range(2)))))
        for chunksize in (0, -1):
            try:
                list(pool.imap(double, [1], chunksize))
            except ValueError as error:
                print(error)
