"""Processes count with a lock, each of the documented ways."""
# methods: fork forkserver

import multiprocessing as mp
import sys


def count(lock, value, own, raw, array):
    for _ in range(200):
        with lock:
            raw.value += 1
        with value.get_lock():
            value.value += 1
        with own:
            own.value += 1
        with array.get_lock():
            array[0] += 1
            array[1:3] = [array[1] + 1, array[0]]


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    lock = mp.Lock()
    value, own, raw = mp.Value("i", 0), mp.Value("d", 0.5, lock=mp.RLock()), mp.Value("L", 0, lock=False)
    array = mp.Array("q", 3)
    processes = [mp.Process(target=count, args=(lock, value, own, raw, array)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print(value.value, own.value, raw.value, array[:], len(array))
