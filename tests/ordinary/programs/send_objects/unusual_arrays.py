"""Arrays without dimensions, without elements, with gaps, in Fortran's order, read-only, scalars."""
# methods: fork server

import multiprocessing as mp
import sys

import numpy as np


def arrays(size):
    base = np.arange(size * size, dtype="f8").reshape(size, size)
    yield base
    yield np.asfortranarray(base)
    yield base.T
    yield base[:, 1]
    yield base[::2, ::-1]
    yield np.array(3.5)
    yield np.float32(2.5)
    yield np.empty((0, 3), "i2")
    yield np.empty((3, 0, 2))
    yield base[1:1]
    yield np.broadcast_to(np.arange(size), (size, size))
    yield base[None, :, None]
    yield base.astype(bool)
    yield np.ma.masked_greater(base, 5)
    yield np.array([None, "text", (1, 2), base[:2]], dtype=object)
    yield [base, base[0], {"part": base[-1:]}]
    yield np.str_("text"), np.bool_(True), np.datetime64("2024-01-01"), np.complex64(1j)


def describe(value):
    if isinstance(value, list):
        return [describe(value[0]), describe(value[1]), describe(value[2]["part"])]
    if isinstance(value, tuple):
        return [(type(item).__name__, str(item)) for item in value]
    kind = type(value).__name__
    if value.dtype == object:
        return kind, value.shape, str(value[:3])
    return kind, str(value.dtype), value.shape, value.size, str(value.sum()) if value.size else "empty"


def answer(connection):
    while (value := connection.recv()) is not None:
        connection.send((describe(value), value))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    ours, theirs = mp.Pipe()
    worker = mp.Process(target=answer, args=(theirs,))
    worker.start()
    for size in (4, 200):
        for value in arrays(size):
            ours.send(value)
            there, back = ours.recv()
            print(there, there == describe(back) == describe(value))
    ours.send(None)
    worker.join()
