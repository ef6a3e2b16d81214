"""The first example of the documentation: a pool maps a function, and every method of the pool is tried."""

import multiprocessing as mp
import sys


def square(x):
    return x * x


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(processes=2) as pool:
        print(pool.map(square, range(10)))
        print(sorted(pool.imap_unordered(square, range(10))))
        result = pool.apply_async(square, (20,))
        print(result.get(timeout=60))
        multiple = [pool.apply_async(square, (i,)) for i in range(4)]
        print([res.get(timeout=60) for res in multiple])
        print(result.ready(), result.successful())
    print("For the moment, the pool remains available for no more work")
    try:
        pool.map(square, range(3))
    except ValueError as error:
        print(error)
