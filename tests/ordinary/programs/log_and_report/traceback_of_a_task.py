"""The traceback of a task names the program's file, and has its lines."""

import multiprocessing as mp
import pathlib
import sys


def fail(number):
    def inner():
        raise ValueError(number)  # in the closure

    inner()


if __name__ == "__main__":
    with mp.get_context(sys.argv[1]).Pool(1) as pool:
        try:
            pool.apply(fail, (3,))
        except ValueError as error:
            text = str(error.__cause__)
    print(text.count(pathlib.Path(__file__).name), "in the closure" in text, ", in fail" in text)
