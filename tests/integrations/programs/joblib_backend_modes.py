"""Tasks of the backend "shmtensor" write into arrays. Argument: joblib's `mmap_mode`, or "None"."""

import sys

import numpy as np
from joblib import Parallel, delayed

from tests.helpers.joblib_programs import use_backend


def write(target, i):
    try:
        target[i] = 1
        return target[:4].sum()
    except ValueError:
        return "read-only"


use_backend()
mode = None if sys.argv[1] == "None" else sys.argv[1]
array = np.zeros(200_000)
found = Parallel(mmap_mode=mode)(delayed(write)(array, i) for i in range(4))
if mode == "r":
    assert found == ["read-only"] * 4
elif mode == "r+":
    assert sorted(found)[-1] == 4, found  # all tasks have one copy
else:
    assert found == [1] * 4
assert not array.any()
if mode == "c":
    array.flags.writeable = False
    assert Parallel(mmap_mode=mode)(delayed(write)(array, i) for i in range(4)) == [1] * 4
    array.flags.writeable = True

small = np.zeros(20_000)
assert Parallel(mmap_mode=mode)(delayed(write)(small, i) for i in range(4)) == [1] * 4
assert Parallel(mmap_mode=mode, max_nbytes=None)(delayed(write)(array, i) for i in range(4)) == [1] * 4
