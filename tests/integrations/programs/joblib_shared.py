"""Workers of joblib write into what the program has, and return arrays. Argument: a backend."""

import sys
import time

import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor


def write(target, i):
    target[i] = i + 1
    return target


def make(i):
    return np.full(100_000, i)


if __name__ == "__main__":
    import shmtensor as st
    from tests.helpers.children import wait_until
    from tests.helpers.empty_sessions import wait_until_empty

    st.install("joblib")
    tensor = st.zeros(4, "int64")
    array = st.zeros(4, "int64").numpy()
    with Parallel(2, backend=sys.argv[1]) as parallel:
        for target in (tensor, array):
            found = parallel(delayed(write)(target, i) for i in range(4))
            assert target.tolist() == [1, 2, 3, 4], target.tolist()
            found[0][0] = 9
            assert target[0] == 9, "the result is not the same memory"
        time.sleep(0.2)  # until the thread that receives results has released the last one
        before = st.stats()["blocks"]
        made = parallel(delayed(make)(i) for i in range(3))
        wait_until(lambda: st.stats()["blocks"] == before + 3, 20, lambda: str(st.stats()))
        assert [one[-1] for one in made] == [0, 1, 2]
    del tensor, array, target, found, made
    if (
        sys.argv[1] == "loky"
    ):  # whose idle executor has queues, as the workers of the backend "shmtensor" have
        get_reusable_executor().shutdown()
    st.uninstall("joblib")
    wait_until_empty()
