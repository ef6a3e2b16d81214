"""Pools and queues without /dev/shm; `test_sandboxes.py` runs it."""

import shmtensor as st
import shmtensor.multiprocessing as mp


def double(value):
    return value * 2


def put(queue):
    queue.put(st.full(3, 7))


if __name__ == "__main__":
    found = next(one for one in st.doctor() if one.name == "/dev/shm")
    assert not found.ok and "locks of multiprocessing" in found.text, found
    try:
        mp.Lock()
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
        process = context.Process(target=put, args=(queue,))
        process.start()
        assert queue.get().tolist() == [7] * 3
        process.join()
    print("fine")
