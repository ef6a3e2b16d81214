"""A worker writes into what it got from arrays that their owner cannot write."""
# not compared: in the standard library from Python 3.14 on they arrive read-only

import multiprocessing as mp
import sys

import numpy as np


def clear(array):
    array[...] = 0
    return array.sum(), np.broadcast_to(array[:1], len(array))


def answer(array, more, results):
    results.put(clear(array)[0])
    while (array := more.recv()) is not None:
        results.put(clear(array)[0])


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    results, (reader, writer) = mp.Queue(), mp.Pipe()
    with mp.Pool(1) as pool:
        for count in (10, 100_000):
            constant = np.frombuffer(b"\x01" * count, "u1")
            worker = mp.Process(target=answer, args=(constant.copy(), reader, results))
            worker.start()
            print(results.get(timeout=30))
            for array in (constant, np.broadcast_to(1.5, count)):
                writer.send(array)
                print(results.get(timeout=30))
            writer.send(None)
            worker.join()
            total, back = pool.apply(clear, (constant,))
            back += 1
            print(total, back.sum(), constant.sum())

# > 0
# > 0
# > 0.0
# > 0 10 10
# > 0
# > 0
# > 0.0
# > 0 100000 100000
