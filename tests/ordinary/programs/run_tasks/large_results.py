"""Large arrays go through a pool by all its methods; results are kept, written to and freed."""
# methods: fork server

import multiprocessing as mp
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np


def scale(array, factor=2):
    return array * factor


def split(array):
    return np.split(array, 4), {"mean": array.mean(), "part": array[::1000]}


def change(array):
    array[0] = -1
    return array.sum(dtype="i8")


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    arrays = [np.full(200_000, number) for number in range(4)]
    with mp.Pool(2) as pool:
        for number, array in enumerate(pool.imap(scale, arrays)):
            print(number, array[:2], array.flags.writeable, array.base is None or array.nbytes)
        print([array.shape for array in pool.starmap(scale, [(array, 3) for array in arrays])])
        parts, info = pool.apply(split, (np.arange(400_000.0),))
        parts[1] += parts[0]
        print([part[-1] for part in parts], info["mean"], info["part"].shape)
        print(pool.map(change, arrays), [array[0] for array in arrays])
        kept = pool.map(scale, arrays * 5)
        print(sum(int(array[-1]) for array in kept))
    with ProcessPoolExecutor(2, mp_context=mp.get_context()) as executor:
        print([int(array.max()) for array in executor.map(scale, arrays, [1, 2, 3, 4])])
    print(int(kept[-1].sum()), parts[1].max())
