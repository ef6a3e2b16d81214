"""A process of the program ends while an executor has a task."""

import multiprocessing as mp
import sys
import time
from concurrent.futures import ProcessPoolExecutor


def other():
    print("other", flush=True)


def work(seconds):
    time.sleep(seconds)
    return seconds


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        print(executor.submit(work, 0).result(), flush=True)
        long = executor.submit(work, 1.3)
        process = context.Process(target=other)
        process.start()
        process.join()
        print(long.result())
