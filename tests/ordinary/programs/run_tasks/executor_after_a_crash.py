"""A worker of an executor ends by os._exit; the program starts another executor."""
# executor: does not break

import multiprocessing as mp
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool


def crash(how):
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    for how in ("exit", "kill"):
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            print(executor.submit(abs, -3).result())
            future = executor.submit(crash, how)
            print(type(future.exception(timeout=60)).__name__)
            try:
                executor.submit(abs, -1)
            except BrokenProcessPool:
                print("broken")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        print(executor.submit(abs, -4).result())
