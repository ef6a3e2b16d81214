"""What a program does with received arrays: write, sort, append, reshape in place, keep, save."""
# methods: fork server

import io
import multiprocessing as mp
import pickle
import sys

import numpy as np


def make(size):
    return {"array": np.arange(size)[::-1].copy(), "matrix": np.eye(3), "names": np.array(["b", "a"])}


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2) as pool:
        kept = pool.map(make, [4, 50_000])
    for found in kept:
        array = found["array"]
        array.sort()
        array += 1
        array[::2] *= 2
        array[0], array[-1] = -1, -2
        np.add.at(array, [1, 1], 10)
        found["matrix"].flat[0] = 9
        found["names"].sort()
        array.shape = (2, -1)
        print(
            array[:, :2].tolist(), array.flags.writeable, array.flags.c_contiguous, np.append(array, 1)[-3:]
        )
        print(found["matrix"].sum(), np.linalg.inv(found["matrix"])[1, 1], found["names"])
        file = io.BytesIO()
        np.save(file, array)
        file.seek(0)
        print(np.array_equal(np.load(file), array), np.array_equal(pickle.loads(pickle.dumps(array)), array))
        copy = array.astype("f4", copy=True)
        array[...] = 0
        print(copy.sum() != 0, array.any(), np.concatenate([array, copy]).shape, memoryview(array).nbytes > 0)
