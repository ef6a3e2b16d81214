"""A worker of joblib's own pool is killed before it has its arguments. Argument: a start method."""

import gc
import multiprocessing
import os
import signal
import sys

from joblib.pool import MemmappingPool

import shmtensor as st
from tests.helpers.empty_sessions import wait_until_empty

if __name__ == "__main__":
    st.install("joblib")
    pool = MemmappingPool(2, context=multiprocessing.get_context(sys.argv[1]))
    os.kill(pool._pool[1].pid, signal.SIGKILL)
    assert pool.map(abs, [-1, -2]) == [1, 2]
    pool.terminate()
    del pool
    gc.collect()
    wait_until_empty()
