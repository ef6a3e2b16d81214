"""One executor ends while another has a task that takes longer."""

import multiprocessing as mp
import sys
import time
from concurrent.futures import ProcessPoolExecutor


def work(seconds):
    time.sleep(seconds)
    return seconds


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        long = executor.submit(work, 1.3)
        with ProcessPoolExecutor(1, mp_context=context) as other:
            print(other.submit(work, 0.1).result())
        print(long.result())
