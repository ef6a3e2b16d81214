"""Arrays as arguments and results of workers. Arguments: a library, a start method, "on" or "off"."""

import sys

import loky
import multiprocess
import numpy as np


class Image(np.ndarray):
    pass


def is_apart(array):
    """Return True if the elements were in shared memory, not in the pickle."""
    from shmtensor._copies import owner_of
    from shmtensor._core import PrivateView

    return isinstance(owner_of(np.asarray(array).ravel(order="K").view("u1")), PrivateView)


def use(arrays, apart):
    assert all(map(is_apart, arrays[:apart]))
    for array in arrays:
        if array.size:
            array[0] = array[-1]
    return [(array, array[::2], array.flags.writeable, array.flags.f_contiguous) for array in arrays]


def by_multiprocess(method, *arguments):
    with multiprocess.get_context(method).Pool(2) as pool:
        return pool.apply(use, arguments)


def by_loky(method, *arguments):
    with loky.ProcessPoolExecutor(2, context=loky.backend.get_context(method)) as executor:
        return executor.submit(use, *arguments).result()


if __name__ == "__main__":
    library, method, state = sys.argv[1:]
    if state == "on":
        import shmtensor as st

        st.install(library)
    square = np.arange(40_000.0).reshape(200, 200)
    large = [
        square,
        np.asfortranarray(square),
        square[::2, 1:],
        square.astype("M8[s]"),
        square.astype("M8[s]").T[1:],
        np.zeros(20_000, [("a", "i4"), ("b", "f8")]),
        np.matrix(square),
    ]
    if library == "multiprocess":  # loky has no place for a rule, and cloudpickle breaks record arrays
        large += [large[-2].view(np.recarray), square.view(Image)]
        large[-1].unit = "metre"  # which dill sends
    others = [np.array([{}, None] * 10_000), np.zeros((0, 3)), np.ma.masked_greater(square, 9)]
    apart = len(large) if state == "on" else 0
    found = globals()[f"by_{library}"](method, large + others, apart)
    assert all(is_apart(array) for array, *_ in found[:apart])
    for array, half, *flags in found:
        array[:1] = array[1:2]
        values = array.ravel()[-2:], half.ravel()[-2:], getattr(array, "unit", None)
        print(type(array), array.dtype, array.shape, *values, flags)
    print(square[0, 1])
