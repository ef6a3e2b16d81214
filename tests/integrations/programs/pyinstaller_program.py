"""A program to be frozen; its environment has the start methods to use."""

import multiprocessing
import os

import shmtensor as st
import shmtensor.multiprocessing as mp


class Task:
    def __init__(self, tensor):
        self.tensor = tensor


def double(task):
    task.tensor *= 2
    return task


def increment(rank, tensor):
    tensor += 1


if __name__ == "__main__":
    (multiprocessing if "STANDARD" in os.environ else mp).freeze_support()
    tensor = st.ones(3)
    for method in os.environ["METHODS"].split(","):
        with mp.get_context(method).Pool(1) as pool:
            result = pool.apply(double, (Task(tensor),))
        mp.start_processes(increment, args=(tensor,), start_method=method)
        print(method, tensor.tolist(), result.tensor.storage() is tensor.storage())
