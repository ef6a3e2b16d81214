"""What each primitive returns and raises, in one process and between two."""

import multiprocessing as mp
import sys
import threading


def error_of(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return type(error).__name__


def change(lock, recursive, units, bounded, event, condition, barrier, numbers):
    numbers[0] = lock.acquire(False), recursive.acquire(False), units.acquire(False), bounded.acquire(False)
    lock.release()  # that of the parent
    numbers[1] = error_of(recursive.release), event.wait(0)
    with condition:
        condition.notify()
    numbers[2] = barrier.wait() in {0, 1}


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Manager() as manager:
        numbers = manager.list([None] * 3)
        lock, recursive, units, bounded = mp.Lock(), mp.RLock(), mp.Semaphore(1), mp.BoundedSemaphore(2)
        event, condition, barrier = mp.Event(), mp.Condition(), mp.Barrier(2, timeout=60)
        print(lock.acquire(), recursive.acquire(), recursive.acquire(True, 1), units.acquire(timeout=0))
        arguments = (lock, recursive, units, bounded, event, condition, barrier, numbers)
        child = mp.Process(target=change, args=arguments)
        with condition:
            child.start()
            print(condition.wait(60))
        print(barrier.wait() in {0, 1}, barrier.parties, barrier.n_waiting, barrier.broken)
        child.join()
        print(child.exitcode, list(numbers))
    print(lock.acquire(False), lock.acquire(False), lock.acquire(True, 0.01), lock.acquire(timeout=-1))
    print(error_of(lock.release), error_of(lock.release))
    print(error_of(recursive.release), error_of(recursive.release), error_of(recursive.release))
    print(units.get_value(), error_of(units.release), units.get_value(), error_of(units.release))
    print(bounded.get_value(), error_of(bounded.release), error_of(bounded.release))
    print(event.is_set(), event.set(), event.is_set(), event.wait(), event.clear(), event.wait(0.01))
    print(condition.acquire(), condition.wait(0.01), condition.wait_for(lambda: 3))
    print(condition.wait_for(lambda: 0, timeout=0), condition.release())
    thread = threading.Thread(target=lambda: print(error_of(barrier.wait)))
    thread.start()
    while barrier.n_waiting == 0:
        pass
    barrier.abort()
    thread.join()
    print(error_of(barrier.wait), barrier.broken, barrier.reset(), barrier.broken)
    print(error_of(mp.Barrier(2, timeout=0.01).wait), mp.Barrier(1, lambda: print("action")).wait())
    with mp.Lock() as first, mp.RLock() as second, mp.Semaphore() as third:
        print(first, second, third)  # what `with` gives
