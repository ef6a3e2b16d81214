"""Workers of joblib are killed. Arguments: a backend, and the instant: rebuild, run or reduce."""

import os
import signal
import sys

import numpy as np
from joblib import Parallel, delayed


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


class Dies:
    def __init__(self, instant):
        self.instant = instant

    def __reduce__(self):
        if self.instant == "reduce":
            die()
        return die if self.instant == "rebuild" else str, ()


def work(instant, tensor, dying, array, plain):
    if instant == "run":
        die()
    return np.ones(100_000), tensor, Dies(instant), array


if __name__ == "__main__":
    import shmtensor as st
    from tests.helpers.children import wait_until

    backend, instant = sys.argv[1:]
    st.install("joblib")
    tensor = st.zeros(100_000)
    # Some handles are before the object that kills, some after it.
    dying = Dies("rebuild") if instant == "rebuild" else None
    task = delayed(work)(instant, tensor, dying, tensor.numpy(), np.ones(1_000_000))
    try:
        # A pool of multiprocessing never returns the result of a worker that was killed.
        Parallel(2, backend=backend, timeout=5 if backend == "multiprocessing" else 60)([task] * 6)
    except Exception as error:
        print(type(error).__name__)
    del task
    # The tensor is left, and an executor's queues if there is one. No gc: messages end with their queues.
    wait_until(lambda: (st.stats()["blocks"], st.stats()["in_flight"]) == (1, 0), 60, lambda: str(st.stats()))
