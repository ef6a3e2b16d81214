"""Dates, records, masked arrays, matrices and a class of one's own go to a worker and come back."""

import multiprocessing as mp
import sys

import numpy as np


class Lengths(np.ndarray):
    def __array_finalize__(self, obj):
        self.unit = getattr(obj, "unit", "m")


def arrays(count):
    numbers = np.arange(float(count))
    yield numbers.astype("i8").view("M8[s]")
    yield numbers.astype("i8").view("m8[ms]")
    yield numbers.view([("x", "f4"), ("y", "i4")]).view(np.recarray)
    yield np.ma.array(numbers, mask=numbers % 2, fill_value=-1)
    yield numbers.reshape(10, -1).view(np.matrix)
    yield numbers.view(Lengths)
    yield numbers.astype("i8").view("M8[D]").reshape(10, -1).T


def describe(array):
    mask = int(array.mask.sum()) if isinstance(array, np.ma.MaskedArray) else None
    last = array.tobytes()[-16:].hex()
    order = array.flags.c_contiguous, array.flags.f_contiguous
    return (
        type(array).__name__,
        str(array.dtype),
        array.shape,
        order,
        mask,
        getattr(array, "unit", None),
        last,
    )


def answer(tasks, results):
    while (array := tasks.get()) is not None:
        results.send((describe(array), array))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, (reader, writer) = mp.Queue(), mp.Pipe()
    worker = mp.Process(target=answer, args=(tasks, writer))
    worker.start()
    for count in (20, 100_000):
        for array in arrays(count):
            tasks.put(array)
            there, back = reader.recv()
            print(there == describe(back), *there)
    tasks.put(None)
    worker.join()
    with mp.Pool(1) as pool:
        print(pool.map(describe, arrays(50_000)))
