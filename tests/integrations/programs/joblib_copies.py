"""How often joblib's arguments are copied, and until when the copies exist. Argument: a backend."""

import logging
import sys

import numpy as np
from joblib import Parallel, delayed


def total(array):
    return array.sum()


if __name__ == "__main__":
    import shmtensor as st
    from shmtensor.integrations._joblib import arrays
    from tests.helpers.children import wait_until

    made = []
    copy_of = arrays.copy_of
    arrays.copy_of = lambda array: made.append(array.shape) or copy_of(array)
    backend = sys.argv[1]
    st.install("joblib")
    array = np.ones(1_000_000)
    Parallel(2, backend=backend)(delayed(abs)(1) for _ in range(2))
    idle = st.stats()["blocks"]  # the queues of idle workers
    for call in range(1, 4):
        totals = Parallel(2, backend=backend)(delayed(total)(array) for _ in range(8))
        assert totals == [call * 1_000_000] * 8, totals
        assert len(made) == call
        array += 1
        # The array is alive.
        wait_until(lambda: st.stats()["blocks"] <= idle, 40, lambda: str(st.stats()))
    # Arrays of one task each live as long as the task.
    with Parallel(2, backend=backend, pre_dispatch=2, batch_size=1) as parallel:
        idle = st.stats()["blocks"]  # with those of a pool of the backend "multiprocessing"
        parallel(delayed(total)(array + i) for i in range(10))
        wait_until(lambda: st.stats()["blocks"] < idle + 5, 20, lambda: str(st.stats()))
    st.set_limit(st.stats()["bytes_reserved"] + (4 << 20))
    big = np.ones(8_000_000)
    texts = []
    logger = logging.getLogger("shmtensor")
    logger.addHandler(logging.NullHandler())
    logger.addFilter(lambda record: texts.append(record.getMessage()))
    try:
        assert Parallel(2, backend=backend)(delayed(total)(big) for _ in range(2)) == [8_000_000] * 2
        assert texts[0].startswith("joblib copies an array of 64000000 bytes through a file: "), texts
    except st.errors.OutOfSharedMemory:
        assert backend == "shmtensor"
    made.clear()
    st.uninstall("joblib")
    backend = "loky" if backend == "shmtensor" else backend
    assert Parallel(2, backend=backend)(delayed(total)(array) for _ in range(2)) == [4_000_000] * 2
    assert not made
