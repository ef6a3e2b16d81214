"""Deaths of users of a queue; `test_queue_deaths.py` runs it. Argument: FUNCTION."""

import os
import signal
import sys

import shmtensor as st
from tests.helpers.children import fork_idle, kill, kill_manager_of, wait_until


def wait_for_sweep():
    wait_until(lambda: st.stats()["processes"] == 1, what="the dead to be noticed")


def lose_ring():  # with the messages 31 to 39
    maker = fork_idle(lambda: [messages.put(i) for i in range(40)])
    os.kill(maker, signal.SIGSTOP)  # it cannot bring its arena to another manager
    kill_manager_of(session)
    kill(maker)
    wait_for_sweep()


def assert_lost():
    try:
        got = messages.get(timeout=60)
    except st.StaleHandleError as error:
        assert "messages were lost" in str(error)
    else:
        raise AssertionError(got)


messages = st.Queue()
session, blocks = st.stats()["session"], st.stats()["blocks"]


def ring_and_message_of_dead_processes_are_mapped_together():
    """Regression: a consumer mapped the ring's arena and unmapped the message's for it, and vice versa."""
    maker = fork_idle(lambda: [messages.put(i) for i in range(40)])
    sender = fork_idle(lambda: messages.put(st.full(3, 40)))
    kill(maker)
    kill(sender)
    wait_for_sweep()
    assert [messages.get(timeout=60) for _ in range(40)] == list(range(40))
    assert messages.get(timeout=60).tolist() == [40] * 3


def ring_in_use_outlives_its_maker_and_the_manager():
    maker = fork_idle(lambda: [messages.put(i) for i in range(40)])
    messages.put(40)  # maps the ring
    assert [messages.get(timeout=60) for _ in range(35)] == list(range(35))
    kill(maker)
    wait_for_sweep()
    other = fork_idle(lambda: st.ones(3))
    extra = st.Queue()
    extra.put(st.ones(3))
    kill_manager_of(session)
    assert [messages.get(timeout=60) for _ in range(6)] == list(range(35, 41))
    kill(other)
    wait_for_sweep()
    del extra


def lost_ring_raises_once():
    """Regression: a queue whose ring was lost together with its arena was never usable again."""
    lose_ring()
    assert [messages.get(timeout=60) for _ in range(31)] == list(range(31))
    assert_lost()
    assert messages.empty()
    messages.put("next")
    assert messages.get(timeout=60) == "next"
    while messages.empty() is False:
        messages.get()


def messages_that_were_lost_count_as_done():
    """Regression: no consumer called `task_done` for them, so `join` waited indefinitely."""
    lose_ring()
    assert messages.get_many() == list(range(31))
    for _ in range(31):
        messages.task_done()
    assert_lost()
    messages.join()


def immediate_shutdown_discards_lost_messages():
    """Regression: it raised StaleHandleError and left the messages after the lost ring."""
    lose_ring()
    messages.put([st.ones(3)], timeout=60)
    messages.shutdown(immediate=True)
    assert messages.empty()
    try:
        raise AssertionError(messages.get(timeout=60))
    except st.ShutDown:
        pass


def put_after_a_lost_ring():
    lose_ring()
    for i in range(100):
        messages.put(("new", i), timeout=60)
    assert [messages.get(timeout=60) for _ in range(31)] == list(range(31))
    assert_lost()
    assert [messages.get(timeout=60) for _ in range(100)] == [("new", i) for i in range(100)]


globals()[sys.argv[1]]()
messages = None
wait_until(lambda: st.stats()["blocks"] == blocks - 1, what="the blocks to be free")
print("fine")
