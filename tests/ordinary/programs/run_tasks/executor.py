"""The examples of `concurrent.futures`: `map`, `submit`, `as_completed`, `wait`, exceptions."""

import concurrent.futures
import math
import multiprocessing as mp
import sys

NUMBERS = [112272535095293, 112582705942171, 115280095190773, 1099726899285419]


def is_prime(n):
    return n > 1 and n % 2 != 0 and all(n % i for i in range(3, min(math.isqrt(n), 2000) + 1, 2))


def fail(text):
    raise KeyError(text)


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with concurrent.futures.ProcessPoolExecutor(max_workers=2, mp_context=context) as executor:
        for number, prime in zip(NUMBERS, executor.map(is_prime, NUMBERS)):
            print(f"{number} is prime: {prime}")
        futures = {executor.submit(pow, 2, n): n for n in range(5)}
        print(sorted((futures[f], f.result()) for f in concurrent.futures.as_completed(futures)))
        failing = executor.submit(fail, "missing")
        print(repr(failing.exception()), failing.done(), failing.cancelled(), failing.cancel())
        done, rest = concurrent.futures.wait([failing, executor.submit(abs, -1)], timeout=60)
        print(len(done), len(rest))
        print(list(executor.map(pow, [1, 2, 3], [4, 5], chunksize=2)))
        try:
            list(executor.map(fail, "ab"))
        except KeyError as error:
            print(repr(error), "fail" in str(error.__cause__))
        called = []
        executor.submit(abs, -7).add_done_callback(lambda future: called.append(future.result()))
    print(called)
    try:
        executor.submit(abs, 1)
    except RuntimeError as error:
        print(error)
