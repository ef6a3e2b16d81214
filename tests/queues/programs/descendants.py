"""A reader in a descendant of its process; `test_broadcast_processes.py` runs it."""

import os

import shmtensor as st
from tests.helpers.children import fork, wait_until

b, inherited = st.Broadcast(4), None


def use_as_grandchild():
    global inherited
    with b.reader() as own:
        b.put(1)
        for call in (inherited.get_nowait, inherited.lag):
            try:
                call()
            except st.SessionError:
                continue
            raise AssertionError("the reader is another process's")
        inherited.close()
        inherited = None
        assert b.readers == 1, "another process's reader left"
        assert own.get(timeout=30) == 1


def use_as_child():
    wait_until(lambda: b.readers == 0 and st.stats()["processes"] == 2, 30)
    assert os.waitpid(fork(use_as_grandchild), 0)[1] == 0
    os.write(ended, b"fine")


ready, ended = os.pipe()


def use_as_parent():
    global inherited
    inherited = b.reader()
    fork(use_as_child)


assert os.waitpid(fork(use_as_parent), 0)[1] == 0
os.close(ended)
print(os.read(ready, 4))
