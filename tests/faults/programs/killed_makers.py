"""Messages whose maker, and the manager, are killed.

`test_kill_points.py` and `test_resource_limits.py` run it. Argument: FUNCTION.
"""

import os
import pickle
import resource
import signal
import sys
from multiprocessing.reduction import ForkingPickler

import shmtensor as st
from tests.helpers.children import kill, kill_manager_of, wait_until

kept = st.ones(1)
session, start = st.stats()["session"], st.stats()["processes"]


def make(tensors):
    """Start a process that makes two tensors. Return its pid and their messages."""
    ours, theirs = os.pipe()
    if (maker := os.fork()) == 0:
        made = tensors()
        for tensor in made:
            os.write(theirs, bytes(ForkingPickler.dumps(tensor)).hex().encode() + b"\n")
        signal.pause()
    with os.fdopen(ours) as messages:
        first, second = (bytes.fromhex(messages.readline()) for _ in range(2))
    return maker, first, second


def kill_manager_and(maker):
    kill_manager_of(session)
    kill(maker)
    st.stats()  # starts the next manager


def arena_in_transit():
    maker, first, second = make(lambda: [st.full(1000, 7.0)] * 2)
    ours, takers = os.pipe()
    if (taker := os.fork()) == 0:
        os.environ["SHMTENSOR_FAULT"] = "session.asked"
        os.environ["SHMTENSOR_FAULT_SIGNAL"] = str(int(signal.SIGSTOP))
        os.write(takers, b"%d" % pickle.loads(first).numpy().sum())
        signal.pause()
    assert os.WIFSTOPPED(os.waitpid(taker, os.WUNTRACED)[1])
    for _ in range(3):
        st.stats()  # when the third is answered, so are the taker's first two messages
    kill_manager_and(maker)
    os.kill(taker, signal.SIGCONT)
    assert os.read(ours, 10) == b"7000"
    kill(taker)
    wait_until(lambda: st.stats()["processes"] == start)
    print(pickle.loads(second).numpy().sum())


def missing_arena():
    # The first arrives in a mapping without the right to write.
    maker, first, second = make(lambda: [st.frombuffer(b"constant", "u1"), st.ones(1000)])
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    _taken = [os.dup(0) for _ in range(40)]
    _constant = pickle.loads(first)  # the arena stays open, without the right to write
    kill_manager_and(maker)  # the next one finds the arena nowhere
    try:
        pickle.loads(second)
    except st.StaleHandleError as error:
        print(error)


globals()[sys.argv[1]]()
