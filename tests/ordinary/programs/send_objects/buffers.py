"""Memoryviews, array.array, ctypes arrays, BytesIO and bytearrays, as programs with files use them."""
# methods: fork server

import array
import ctypes
import io
import multiprocessing as mp
import sys


def describe(value):
    if isinstance(value, io.IOBase):
        return type(value).__name__, value.tell(), value.read(3)
    if isinstance(value, ctypes.c_double):
        return "ctypes", value.value
    if isinstance(value, array.array):
        return value.typecode, value[:3].tolist(), len(value)
    return type(value).__name__, bytes(value[:3]), len(value)


def answer(tasks, results):
    for value in iter(tasks.get, None):
        results.put((describe(value), value))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=answer, args=(tasks, results))
    worker.start()
    for size in (5, 100_000):
        moved = io.BytesIO(b"abc" * size)
        moved.seek(2)
        for value in (
            bytes(range(5)) * size,
            bytearray(b"12345") * size,
            array.array("d", [0.5, 1.5, 2.5] * size),
            array.array("u", "text") if sys.version_info < (3, 13) else array.array("b", b"text"),
            ctypes.c_double(1.5),
            moved,
            io.StringIO("text\nlines"),
        ):
            tasks.put(value)
            there, back = results.get()
            print(*there, type(back) is type(value))
    tasks.put(None)
    worker.join()
