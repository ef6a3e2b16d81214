"""A process whose manager is stopped; `test_silent_managers.py` runs it."""

import os
import signal

import shmtensor as st
from tests.helpers.children import manager_pid, wait_until
from tests.helpers.threads import run_together

tensor = st.full(1000, 7)
session = st.stats()["session"]
manager = manager_pid(session)


def attempt():
    try:
        st.stats()
    except st.SessionError as error:
        assert "did not answer within 10 seconds" in str(error), error
        return False
    return True


os.kill(manager, signal.SIGSTOP)
try:
    failed = []
    run_together(*[lambda: failed.extend(not attempt() for _ in range(5))] * 4)
    assert failed == [True] * 20
    if (pid := os.fork()) == 0:
        os._exit(tensor.tolist() != [7] * 1000)
    assert os.waitpid(pid, 0)[1] == 0
finally:
    os.kill(manager, signal.SIGCONT)
wait_until(attempt, what="the answer")
assert manager_pid(session) == manager, "it is not replaced"
assert st.stats()["processes"] == 1
assert tensor.tolist() == [7] * 1000

# Another manager is given all of its time.
os.kill(manager, signal.SIGSTOP)
assert not attempt()
os.kill(manager, signal.SIGKILL)
wait_until(lambda: manager_pid(session) != manager if attempt() else False, what="the next manager")
assert tensor.tolist() == [7] * 1000
