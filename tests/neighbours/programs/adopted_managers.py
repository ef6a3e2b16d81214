"""A subreaper whose managers are killed; `test_adopted_managers.py` runs it."""

import ctypes
import os
import subprocess
import sys

import shmtensor as st
from tests.helpers.children import kill_manager_of, wait_until

assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return set(map(int, file.read().split()))


def only_the_manager():
    st.gc()  # reaps a manager that took its time to end
    return len(children()) == 1


tensor = st.full(1000, 7)
session = st.stats()["session"]
assert only_the_manager()
for _ in range(3):
    kill_manager_of(session)
    assert st.stats()["processes"] == 1
    wait_until(only_the_manager, what="the killed manager to be reaped")
child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
kill_manager_of(session)
assert tensor.tolist() == [7] * 1000 and st.stats()["processes"] == 1
wait_until(lambda: st.gc() or len(children()) == 2, what="the last one to be reaped")
assert child.wait() == 3, "another child's status is left to the program"
print(session)
