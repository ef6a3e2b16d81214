"""Tasks and results that cannot be pickled give errors, and the pool goes on."""
# methods: fork spawn forkserver

import multiprocessing as mp
import sys
import threading


def give(kind):
    return {"lock": threading.Lock, "file": lambda: open(__file__), "generator": lambda: (i for i in "ab")}[
        kind
    ]()


def attempt(call):
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2) as pool:
        attempt(lambda: pool.apply(len, (threading.Lock(),)))
        attempt(lambda: pool.map(lambda x: x, [1, 2]))
        attempt(lambda: pool.map(abs, [1, (i for i in "ab")]))
        for kind in ("lock", "file", "generator"):
            attempt(lambda: pool.apply(give, (kind,)))
        attempt(lambda: pool.map(give, ["lock", "file"]))
        attempt(lambda: list(pool.imap(give, ["lock"])))
        attempt(lambda: pool.map(abs, [-1, -2]))
