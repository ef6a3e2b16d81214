"""Arrays of every dtype arrive equal, small and large, with the same dtype and byte order."""
# methods: fork server

import multiprocessing as mp
import sys

import numpy as np

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "c8", "c16", "G"]
DTYPES += ["S5", "U3", "V4", "O", "M8[ns]", "M8[D]", "m8[us]", [("a", "i4"), ("b", "f8", (2,)), ("c", "S2")]]


def make(dtype, size):
    numbers = np.arange(size) % 100
    if np.dtype(dtype).fields:
        array = np.zeros(size, dtype)
        array["a"], array["b"], array["c"] = numbers, numbers[:, None], b"x"
        return array
    if np.dtype(dtype).kind == "V":
        return numbers.astype("i4").view("V4")
    return numbers.astype(dtype)


def describe(array):
    last = bytes(array[-1]) if array.dtype.kind == "V" else array[-1]
    return str(array.dtype), array.shape, str(last), array


def are_equal(array, other):
    same = (array == other).all() if array.dtype == object else array.tobytes() == other.tobytes()
    return bool(same and array.dtype == other.dtype and array.dtype.byteorder == other.dtype.byteorder)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    arrays = [make(dtype, size) for dtype in DTYPES for size in (3, 30_000)]
    with mp.Pool(2) as pool:
        for array, (dtype, shape, last, back) in zip(arrays, pool.imap(describe, arrays)):
            print(dtype, shape, last, are_equal(array, back))
