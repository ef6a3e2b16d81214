"""A context of the standard library's module names the start method; the program ends workers."""

import multiprocessing as mp
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

standard = __import__("multiprocessing")

if __name__ == "__main__":
    mp.freeze_support()
    method = "spawn" if sys.argv[1] == "server" else sys.argv[1]
    executor = ProcessPoolExecutor(1, mp_context=standard.get_context(method))
    value = executor.submit(abs, -2).result()
    running = executor.submit(time.sleep, 3600)
    while not running.running():
        time.sleep(0.001)
    for worker in list(executor._processes.values()):
        worker.terminate()
    try:
        running.result()
    except BrokenProcessPool:
        value += 1
    executor.shutdown(cancel_futures=True)
    print(value)
