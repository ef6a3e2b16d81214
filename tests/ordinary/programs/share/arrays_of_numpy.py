"""The recipes that share arrays of NumPy: over an Array, over a RawArray, over a SharedMemory."""
# methods: fork server

import multiprocessing as mp
import sys
from multiprocessing import shared_memory

import numpy as np

state = {}


def keep(raw, shape):
    state["matrix"] = np.frombuffer(raw).reshape(shape)


def total(row):
    return float(state["matrix"][row].sum())


def fill(array, name, shape, dtype, row):
    with array.get_lock():
        view = np.frombuffer(array.get_obj(), dtype="i4")
        view[row] += 10
    memory = shared_memory.SharedMemory(name=name)
    matrix = np.ndarray(shape, dtype, buffer=memory.buf)
    matrix[row] = row
    del matrix
    memory.close()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    data = np.arange(12.0).reshape(3, 4)
    raw = mp.RawArray("d", data.size)
    np.copyto(np.frombuffer(raw).reshape(data.shape), data)
    with mp.Pool(2, keep, (raw, data.shape)) as pool:
        print(pool.map(total, range(3)))
    array = mp.Array("i", 3)
    memory = shared_memory.SharedMemory(create=True, size=data.nbytes)
    matrix = np.ndarray(data.shape, data.dtype, buffer=memory.buf)
    matrix[:] = -1
    processes = [
        mp.Process(target=fill, args=(array, memory.name, data.shape, data.dtype, row)) for row in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        print(process.exitcode)
    print(array[:], matrix.sum(axis=1))
    del matrix
    memory.close()
    memory.unlink()
