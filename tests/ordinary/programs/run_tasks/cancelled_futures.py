"""An executor is shut down while futures wait: what runs is finished, the others are cancelled."""
# methods: forkserver server

import multiprocessing as mp
import sys
from concurrent.futures import CancelledError, ProcessPoolExecutor


def wait_for(event, value):
    event.wait()
    return value


def attempt(future):
    try:
        return future.result(timeout=60)
    except CancelledError:
        return "cancelled"


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with context.Manager() as manager:
        event = manager.Event()
        executor = ProcessPoolExecutor(1, mp_context=context)
        futures = [executor.submit(wait_for, event, number) for number in range(20)]
        print(futures[-1].cancel(), futures[-1].cancelled(), attempt(futures[-1]))
        executor.shutdown(wait=False, cancel_futures=True)
        event.set()
        results = [attempt(future) for future in futures]
        print(results[0], results[5:])
    for process in mp.active_children():
        process.join()
