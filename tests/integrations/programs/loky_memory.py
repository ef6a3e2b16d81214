"""Workers of joblib write into much shared memory, which loky counts as theirs."""

import os
import time

import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky import process_executor


def fill(tensor, seconds):
    process_executor._MAX_MEMORY_LEAK_SIZE = 20_000_000
    np.asarray(tensor).fill(1)
    time.sleep(seconds)
    return os.getpid()


if __name__ == "__main__":
    import shmtensor as st

    st.install("joblib")
    with Parallel(2, batch_size=1) as parallel:
        # loky compares with the memory after the first task, and not within a second.
        first, second, third = (
            set(parallel(delayed(fill)(st.zeros(count), seconds) for _ in range(2)))
            for count, seconds in ((1, 0.2), (5_000_000, 1.2), (1, 0.2))
        )
    # One worker may have started late, but no third one.
    assert len(first | second | third) == 2, (first, second, third)
