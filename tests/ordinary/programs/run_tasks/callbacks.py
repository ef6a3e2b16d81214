"""Results and errors go to callbacks; `close` and `join` wait for them all."""
# methods: fork server

import multiprocessing as mp
import sys

results, errors = [], []


def divide(a, b):
    return a / b


def failed(error):
    errors.append(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    pool = mp.Pool(2)
    for number in range(4):
        pool.apply_async(divide, (12, number), callback=results.append, error_callback=failed)
    pool.map_async(abs, [-1, -2], callback=results.extend)
    pool.starmap_async(divide, [(1, 2), (1, 0)], error_callback=failed)
    pool.map_async(abs, ["text"], error_callback=failed)
    pool.close()
    pool.join()
    print(sorted(results))
    print(sorted(errors))
