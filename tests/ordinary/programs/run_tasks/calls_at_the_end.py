"""A function submits calls, keeps nothing, and the program ends; `atexit` removes the folder of the calls."""

import atexit
import multiprocessing as mp
import pathlib
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor


def write(folder, name):
    time.sleep(0.1)
    pathlib.Path(folder, name).touch()
    return name


def submit(folder):
    executor = ProcessPoolExecutor(1, mp_context=mp.get_context(sys.argv[1]))
    for name in "abc":
        executor.submit(write, folder, name).add_done_callback(lambda future: print(future.result()))


if __name__ == "__main__":
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    submit(folder)
    print("submitted")
