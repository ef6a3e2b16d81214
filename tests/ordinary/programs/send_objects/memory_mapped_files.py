"""Workers get arrays that map a file, open the file themselves, and write their part of it."""
# methods: fork server

import multiprocessing as mp
import os
import sys
import tempfile

import numpy as np


def fill(path, shape, row):
    matrix = np.memmap(path, dtype="f8", mode="r+", shape=shape)
    matrix[row] = row
    matrix.flush()


def total(array):
    return type(array).__name__, float(array.sum()), array.shape


def row_of(path, row):
    return np.load(path, mmap_mode="r")[row].tolist()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, mp.Pool(2) as pool:
        path, shape = os.path.join(folder, "matrix.dat"), (4, 3000)
        matrix = np.memmap(path, dtype="f8", mode="w+", shape=shape)
        pool.starmap(fill, [(path, shape, row) for row in range(4)])
        print(matrix.sum(axis=1))
        print(
            [
                (float(value), size)
                for _, value, size in pool.map(total, [matrix, matrix[1:3], matrix[:, ::2]])
            ]
        )
        file = os.path.join(folder, "saved.npy")
        np.save(file, matrix[:, :4])
        print(pool.starmap(row_of, [(file, 0), (file, 3)]))
        np.savez(os.path.join(folder, "both.npz"), a=matrix[0], b=np.arange(3))
        with np.load(os.path.join(folder, "both.npz")) as both:
            print(pool.map(total, [both["a"], both["b"]]))
