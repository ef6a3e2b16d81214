"""A worker appends to the array that it got, in place."""
# not compared: in the standard library from Python 3.14 on it does not own its elements

import multiprocessing as mp
import sys

import numpy as np


def answer(tasks, results):
    array = tasks.get()
    array.resize(len(array) + 1)
    array[-1] = 5
    results.put(array)


def main():  # in a module, NumPy refuses to resize a variable from Python 3.14 on
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=answer, args=(tasks, results))
    worker.start()
    tasks.put(np.ones(3))
    array = results.get()
    array.resize(6)
    print(array)
    worker.join()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    main()

# > [1. 1. 1. 5. 0. 0.]
