"""A function that may take too long runs in a process, which is killed after its time."""
# methods: fork server

import multiprocessing as mp
import queue
import sys
import time


def call(function, results, args):
    try:
        results.put((True, function(*args)))
    except Exception as error:
        results.put((False, error))


def run_with_timeout(function, *args, timeout):
    results = mp.Queue()
    process = mp.Process(target=call, args=(function, results, args))
    process.start()
    try:
        success, value = results.get(timeout=timeout)
    except queue.Empty:
        process.terminate()
        raise TimeoutError(f"{function.__name__} takes longer") from None
    finally:
        process.join()
        results.close()
    if not success:
        raise value
    return value


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    for function, argument, timeout in ((abs, -3, 60), (time.sleep, 1000, 0.1), (int, "x", 60)):
        try:
            print(run_with_timeout(function, argument, timeout=timeout))
        except (TimeoutError, ValueError) as error:
            print(type(error).__name__, error)
    print(mp.active_children())
