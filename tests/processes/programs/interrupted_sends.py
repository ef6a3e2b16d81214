"""Sends that signals interrupt; `test_interrupted_sends.py` runs it. Arguments: KIND SEED."""

import random
import signal
import sys

import shmtensor as st
import shmtensor.multiprocessing as mp


class Late(Exception): ...


def raise_late(*_):
    if sending:
        raise Late


kind, seed = sys.argv[1:]
dice = random.Random(seed)
if kind == "Pipe":
    reader, writer = mp.Pipe(False)
    send, receive = writer.send, reader.recv
else:
    queue = mp.SimpleQueue()
    reader, send, receive = queue._reader, queue.put, queue.get
signal.signal(signal.SIGALRM, raise_late)
st.zeros(1)  # which imports NumPy
sending = False
for i in range(5000):
    try:
        sending = True
        signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-6, 60e-6))
        send(st.full(4, i))
    except Late:
        pass
    sending = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    while reader.poll():
        assert receive().tolist() == [i] * 4
send(st.full(4, 5000))
assert receive().tolist() == [5000] * 4
assert st.stats()["in_flight"] == 0, st.stats()
print("fine")
