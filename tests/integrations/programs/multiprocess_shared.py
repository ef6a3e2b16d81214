"""Processes of multiprocess write into what the program has. Argument: a start method."""

import gc
import sys

import multiprocess
import numpy as np

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.empty_sessions import wait_until_empty


def write(target, i):
    target[i] = i + 1
    return target


def closure(target):
    def fill():
        target[3] = 8
        return st.ones(3)

    return fill


def put(queue, target):
    write(target, 0)
    queue.put(target)


class Dies:
    def __reduce__(self):
        return eval, ("__import__('os').kill(__import__('os').getpid(), 9)",)


if __name__ == "__main__":
    st.install("multiprocess")
    context = multiprocess.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        for target in (st.zeros(4), st.zeros(4).numpy()):
            found = pool.starmap(write, [(target, i) for i in range(4)])
            assert target.tolist() == [1, 2, 3, 4]
            found[2][0] = 9
            assert target[0] == 9, "the result is not the same memory"
        # Functions and their closures go by dill, what they refer to as a handle.
        made = pool.apply(closure(target))
        assert made.tolist() == [1, 1, 1]
        assert target[3] == 8
        assert pool.apply(np.sum, (np.ones(1_000_000),)) == 1_000_000

        # A worker is killed between the handles of a message, whose pipe exists as long as the pool.
        workers = [worker.pid for worker in pool._pool]
        pool.apply_async(write, (st.zeros(100_000), Dies(), st.zeros(100_000)))
        wait_until(lambda: workers != [worker.pid for worker in pool._pool], 30)
    del pool
    gc.collect()  # the unfinished task and its pool refer to each other
    tensor = st.zeros(4)
    for queue in (context.Queue(), context.SimpleQueue()):
        process = context.Process(target=put, args=(queue, tensor))
        process.start()
        received = queue.get()
        process.join(50)
        assert tensor[0] == received[0] == 1
        queue.put([tensor] * 3)  # which no process reads
        queue.close()
    del queue, received, tensor, target, found, made
    wait_until_empty()

    st.uninstall("multiprocess")
    tensor = st.zeros(4)
    with context.Pool(1) as pool:
        pool.apply(write, (tensor, 0))
    assert tensor[0] == 0, "uninstall has no effect"
