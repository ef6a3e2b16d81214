"""Arrays as arguments and results of joblib. Arguments: a backend, a `mmap_mode`, "on" or "off"."""

import sys

import numpy as np
from joblib import Parallel, delayed


def describe(array):
    flags = array.flags
    return [array.shape, str(array.dtype), flags.f_contiguous, flags.c_contiguous]


def use(array, other=None):
    # This module does not import shmtensor in a worker.
    try:
        array[0] = array[1]
        wrote = True
    except ValueError:
        wrote = False
    return [*describe(array), array.flags.writeable], wrote, array, array[::2], {"other": [other]}


if __name__ == "__main__":
    backend, mode, on = sys.argv[1:4]
    if on == "on":
        import shmtensor as st

        st.install("joblib")
    elif backend == "shmtensor":
        backend = "loky"
    square = np.arange(1_000_000.0).reshape(1000, 1000)
    arrays = [
        square,
        np.asfortranarray(square),
        square[::2, 1:],
        square.astype("M8[s]"),
        np.zeros(200_000, [("a", "i4"), ("b", "f8")]),
        np.arange(20_000),
        np.array([{}, None] * 100_000),
        np.zeros((0, 3)),
        np.float32(3) * np.ones(()),
    ]
    with Parallel(2, backend=backend, mmap_mode=mode, batch_size=1) as parallel:
        for _ in range(2):
            results = parallel(
                delayed(use)(array, square) for array in arrays if len(array.shape) and len(array)
            )
            for seen, wrote, array, half, rest in results:
                print(seen, wrote, describe(array), half.sum() if half.dtype.kind == "f" else half[:2])
                print(describe(half), rest["other"][0].sum())
            for _, _, array, _, _ in results:
                # joblib's own results of read-only arguments are read-only if they are contiguous.
                if on == "on" or array.flags.writeable:
                    array[0] = array[1]
            if mode == "r":
                square *= 2  # as without: tasks of the same block of `with` may see the file of before
    for array in parallel(delayed(np.copy)(array) for array in arrays):
        print(describe(array), array.ravel()[-2:])
    assert square[0, 3] == (12 if mode == "r" else 3), "workers have changed what the parent has"
