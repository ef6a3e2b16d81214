"""A semaphore lets two processes work at a time; bounded ones detect a release too many."""

import multiprocessing as mp
import sys


def work(semaphore, working, most):
    with semaphore:
        with working.get_lock():
            working.value += 1
            most.value = max(most.value, working.value)
        with working.get_lock():
            working.value -= 1


def attempt(call):
    try:
        print(call())
    except (ValueError, AssertionError, RuntimeError, OSError) as error:
        print(type(error).__name__, error)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    semaphore, working, most = mp.Semaphore(2), mp.Value("i"), mp.Value("i")
    processes = [mp.Process(target=work, args=(semaphore, working, most)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print(working.value, 1 <= most.value <= 2, semaphore.get_value())
    bounded, lock, again = mp.BoundedSemaphore(1), mp.Lock(), mp.RLock()
    attempt(bounded.release)
    attempt(lock.release)
    attempt(again.release)
    print(bounded.acquire(), bounded.acquire(block=False), bounded.acquire(True, 0.01), bounded.get_value())
    print(again.acquire(), again.acquire(), again.release(), again.release())
    print(lock.acquire(timeout=1), lock.acquire(False), lock.release())
    semaphore.release()
    print(semaphore.get_value())
