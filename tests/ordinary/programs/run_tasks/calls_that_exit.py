"""What a call of an executor raises is what its future raises, also SystemExit, and the worker goes on."""

import argparse
import asyncio
import multiprocessing as mp
import os
import sys
from concurrent.futures import ProcessPoolExecutor


class Stop(BaseException):
    pass


def parse(arguments):
    parser = argparse.ArgumentParser(prog="call")
    parser.add_argument("number", type=int)
    sys.stderr = open(os.devnull, "w")
    return parser.parse_args(arguments).number


def stop(error, *arguments):
    raise error(*arguments)


if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=mp.get_context(sys.argv[1])) as executor:
        pid = executor.submit(os.getpid).result()
        calls = (parse, ["x"]), (stop, Stop, "enough"), (stop, asyncio.CancelledError), (stop, GeneratorExit)
        for function, *arguments in calls:
            print(repr(executor.submit(function, *arguments).exception()))
        print(executor.submit(parse, ["5"]).result(), executor.submit(os.getpid).result() == pid)
