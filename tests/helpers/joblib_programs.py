"""What programs of the tests of joblib's backend "shmtensor" call."""

from __future__ import annotations

import os
import time

import joblib
from joblib import Parallel, delayed

import shmtensor as st


def use_backend() -> None:
    """Select the backend, with two workers."""
    st.install("joblib")
    joblib.parallel_config(backend="shmtensor", n_jobs=2)


def raised(function, *args, **options) -> BaseException:
    """Return what a call raises whose tasks all run the function."""
    try:
        Parallel(**options)(delayed(function)(*args) for _ in range(4))
    except BaseException as error:
        return error
    raise AssertionError("no exception")


def pids() -> set[int]:
    """Return the process ids of the workers of a call."""
    return set(Parallel()(delayed(lambda: time.sleep(0.1) or os.getpid())() for _ in range(4)))
