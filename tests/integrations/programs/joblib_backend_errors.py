"""What a program catches when tasks of the backend "shmtensor" fail."""

import pickle
import sys

import numpy as np

import shmtensor as st
from tests.helpers.joblib_programs import pids, raised, use_backend


class Own(Exception):
    def __init__(self, first, second):  # cannot be unpickled
        super().__init__(first)


class Opened:
    def __reduce__(self):
        return int, ("not a number",)


class Exits:
    def __reduce__(self):
        return sys.exit, (3,)


def fail(kind, *args):
    raise kind(*args)


use_backend()
before = pids()
error = raised(fail, KeyError, "missing")
assert type(error) is KeyError
assert error.args == ("missing",)
assert "in fail" in str(error.__cause__), error.__cause__
assert not before & pids(), "the other tasks were not aborted"

error = raised(fail, SystemExit, 3)
assert type(error) is SystemExit
assert error.code == 3

error = raised(fail, Own, 1, 2)
assert "the exception of fail cannot be unpickled: TypeError" in str(error), error
assert "in fail" in str(error.__cause__)

for made, cause in (Opened, "ValueError: invalid"), (Exits, "SystemExit: 3"):
    error = raised(made)
    assert type(error) is pickle.UnpicklingError
    assert f"the result of {made.__qualname__} cannot be unpickled: {cause}" in str(error), error
error = raised(abs, Opened())
assert "the task of abs cannot be unpickled in its worker: ValueError" in str(error), error
error = raised(lambda: (i for i in ()))
assert "generator" in str(error), error
error = raised(abs, (i for i in ()))
assert "generator" in str(error), error


def large():
    st.set_limit(50 << 20)
    return np.ones(100 << 20, "uint8")


error = raised(large)
assert type(error) is st.OutOfSharedMemory, error
assert len(pids()) == 2
