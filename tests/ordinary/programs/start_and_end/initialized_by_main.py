"""A program with a `main` function, settings from its arguments, and globals that only `main` assigns."""
# methods: fork spawn server

import argparse
import multiprocessing as mp
import sys

settings = None
CONSTANTS = {"version": 3}


def work(arguments, number):
    return arguments.name, number * arguments.factor, CONSTANTS["version"]


def work_with_globals(number):
    return settings.name if settings else "none", number


def keep(value):
    global settings
    settings = value


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("method")
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--name", default="default")
    arguments = parser.parse_args(argv)
    context = mp.get_context(arguments.method)
    with context.Pool(2, keep, (arguments,)) as pool:
        print(pool.starmap(work, [(arguments, number) for number in range(3)]))
        print(pool.map(work_with_globals, range(2)))
        arguments.factor = 10
        print(pool.starmap(work, [(arguments, 1)]), settings)
    return 0


if __name__ == "__main__":
    sys.exit(main([sys.argv[1], "--name", "given"]))
