"""A pool whose class makes its own processes, which are named, and not daemonic."""

import multiprocessing as mp
import multiprocessing.pool
import sys

library = __import__("multiprocessing")


class Named(mp.pool.Pool):
    @staticmethod
    def Process(context, *args, **keywords):
        made = mp.pool.Pool.Process(context, *args, **keywords)
        made.name = f"named-{made.name}"
        return made


def first_word(_):
    return library.current_process().name.partition("-")[0]


if __name__ == "__main__":
    with Named(2, context=mp.get_context(sys.argv[1])) as pool:
        print(pool.map(first_word, range(3)))
