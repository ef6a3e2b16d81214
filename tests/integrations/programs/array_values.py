"""Arrays as arguments and results of a pool of multiprocess. Arguments: a start method, "on" or "off"."""

import sys

import multiprocess
import numpy as np


def use(*arrays):
    for array in arrays:
        if array.size:
            array[0] = array[-1]
    return [(array, array[::2], array.flags.writeable, array.flags.f_contiguous) for array in arrays]


if __name__ == "__main__":
    if sys.argv[2] == "on":
        import shmtensor as st

        st.install("multiprocess")
    square = np.arange(40_000.0).reshape(200, 200)
    arrays = [
        square,
        np.asfortranarray(square),
        square[::2, 1:],
        square.astype("M8[s]"),
        np.zeros(20_000, [("a", "i4"), ("b", "f8")]),
        np.array([{}, None] * 10_000),
        np.zeros((0, 3)),
        np.ma.masked_greater(square, 9),
    ]
    with multiprocess.get_context(sys.argv[1]).Pool(2) as pool:
        for array, half, *flags in pool.apply(use, arrays):
            array[:1] = array[1:2]
            print(type(array), array.dtype, array.shape, array.ravel()[-2:], half.ravel()[-2:], flags)
    print(square[0, 1])
