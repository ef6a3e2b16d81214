"""Tasks of a long generator are submitted only as fast as they are done, by a semaphore of threads."""
# methods: fork server

import multiprocessing as mp
import sys
import threading
from concurrent.futures import ProcessPoolExecutor


class BoundedExecutor:
    def __init__(self, executor, bound):
        self.executor, self.semaphore = executor, threading.BoundedSemaphore(bound)

    def submit(self, function, *args):
        self.semaphore.acquire()
        future = self.executor.submit(function, *args)
        future.add_done_callback(lambda _: self.semaphore.release())
        return future


def work(number):
    if number % 50 == 49:
        raise ValueError(number)
    return number


def numbers():
    yield from range(200)


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        bounded = BoundedExecutor(executor, 5)
        futures = [bounded.submit(work, number) for number in numbers()]
        errors = [str(future.exception()) for future in futures if future.exception()]
        print(errors, sum(future.result() for future in futures if not future.exception()))
