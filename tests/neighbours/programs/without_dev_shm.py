"""Pools, queues, locks and values without /dev/shm; `test_sandboxes.py` runs it."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import shmtensor as st
import shmtensor.multiprocessing as mp


def double(value):
    return value * 2


def put(queue, lock, value, event, condition, barrier):
    with lock, value, condition:
        value.value += 1
        condition.notify()
    barrier.wait()
    queue.put(st.full(3, 7))
    event.set()


if __name__ == "__main__":
    found = next(one for one in st.doctor() if one.name == "/dev/shm")
    assert not found.ok and "standard library's locks" in found.text, found
    try:
        multiprocessing.Lock()
        raise AssertionError("there is a /dev/shm")
    except OSError:
        pass
    for method in mp.get_all_start_methods():
        context = mp.get_context(method)
        with context.Pool(2) as pool:
            assert pool.map(double, range(4)) == [0, 2, 4, 6]
            assert pool.apply(double, (st.full(3, 2),)).tolist() == [4] * 3
            for worker in pool._pool:
                worker.kill()
            assert pool.map(double, range(4)) == [0, 2, 4, 6]
            pool.close()
            pool.join()
        queue = context.Queue()
        lock, value, event = context.Lock(), context.Value("i"), context.Event()
        condition, barrier = context.Condition(), context.Barrier(2)
        with condition:
            process = context.Process(target=put, args=(queue, lock, value, event, condition, barrier))
            process.start()
            assert condition.wait(60)
        barrier.wait()
        assert event.wait(60)
        assert value.value == 1
        assert queue.get().tolist() == [7] * 3
        process.join()
        with ProcessPoolExecutor(2, context) as executor:
            assert list(executor.map(double, range(4))) == [0, 2, 4, 6]
    print("fine")
