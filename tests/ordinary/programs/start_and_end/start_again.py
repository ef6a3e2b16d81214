"""A program restarts workers, and learns which of its Process objects it may start."""

import multiprocessing as mp
import os
import sys


class Forgetful(mp.Process):
    def __init__(self):
        pass


def attempt(process):
    try:
        process.start()
        process.join()
        print("exit code", process.exitcode)
    except (AssertionError, AttributeError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    process = mp.Process(target=os.getpid)
    attempt(process)
    attempt(process)
    process.close()
    attempt(process)
    attempt(Forgetful())
