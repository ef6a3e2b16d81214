"""Queues that are full or empty: exceptions, timeouts, sizes."""
# methods: fork server

import multiprocessing as mp
import queue as standard_queue
import sys
from queue import Empty, Full


def attempt(call, *args, **kwargs):
    try:
        print(call(*args, **kwargs))
    except (Empty, Full) as error:
        print(type(error).__name__, error.args)


def fill(queue):
    attempt(queue.put, "b", timeout=0.01)
    queue.get()
    attempt(queue.put, "c", block=False)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    queue = mp.Queue(2)
    print(queue.empty(), queue.full(), queue.qsize())
    attempt(queue.get, block=False)
    attempt(queue.get_nowait)
    attempt(queue.get, True, 0.01)
    attempt(queue.get, timeout=0)
    attempt(queue.get, timeout=-1)
    queue.put("a")
    queue.put_nowait("aa")
    print(queue.full(), queue.qsize())
    attempt(queue.put_nowait, "x")
    attempt(queue.put, "x", False)
    attempt(queue.put, "x", True, 0.01)
    process = mp.Process(target=fill, args=(queue,))
    process.start()
    process.join()
    print(queue.get(timeout=60), queue.get(True, 60), queue.qsize())
    try:
        mp.Queue(1).get_nowait()
    except standard_queue.Empty:
        print("empty")
