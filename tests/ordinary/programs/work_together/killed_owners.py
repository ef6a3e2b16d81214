"""A worker is killed while it has a lock, a unit of a semaphore, or waits for a condition or an event."""

# not compared: the standard library waits indefinitely
import multiprocessing as mp
import sys
import time


def have(kind, primitive, ready):
    if kind == "condition":
        primitive.acquire()
        ready.release()
        primitive.wait()
    elif kind == "event":
        ready.release()
        primitive.wait()
    else:
        primitive.acquire()
        ready.release()
        time.sleep(600)


def kill_with(kind, primitive):
    ready = mp.Semaphore(0)
    worker = mp.Process(target=have, args=(kind, primitive, ready))
    worker.start()
    ready.acquire()
    if kind == "condition":
        with primitive:  # the worker waits
            pass
    worker.kill()
    worker.join()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    for make in (mp.Lock, mp.RLock, mp.Semaphore, mp.BoundedSemaphore):
        primitive = make()
        kill_with(make.__name__, primitive)
        print(make.__name__, primitive.acquire(timeout=60))
        primitive.release()
    condition = mp.Condition()
    kill_with("condition", condition)
    with condition:
        condition.notify_all()
        print("notified")
    event = mp.Event()
    kill_with("event", event)
    event.set()
    print(event.wait(60))
    value = mp.Value("i", 5)
    kill_with("value", value.get_lock())
    with value:
        print(value.value)

# > Lock True
# > RLock True
# > Semaphore True
# > BoundedSemaphore True
# > notified
# > True
# > 5
