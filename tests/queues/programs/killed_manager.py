"""A broadcast whose session's manager is killed; `test_broadcast_processes.py` runs it."""

import os

import shmtensor as st
from tests.helpers.children import fork, kill, kill_manager_of, wait_until
from tests.helpers.numbered_messages import message, number_in

b, kept = st.Broadcast(3), st.ones(1)
own = b.reader()
session, blocks = st.stats()["session"], st.stats()["blocks"]


def read():
    with b.reader() as reader:
        assert [number_in(reader.get(timeout=30)) for _ in range(60)] == list(range(60))


child, doomed = fork(read), fork(read)
b.wait_for_readers(3, timeout=30)
for number in range(60):
    if number % 20 == 10:
        kill_manager_of(session)
    if number == 30:
        kill(doomed)
    b.put(message(number), timeout=30)
    assert number_in(own.get(timeout=30)) == number
assert os.waitpid(child, 0)[1] == 0
wait_until(lambda: st.stats()["processes"] == 1 and b.readers == 1)
wait_until(lambda: st.stats()["blocks"] == blocks)
print("fine")
