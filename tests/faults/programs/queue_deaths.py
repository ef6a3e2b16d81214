"""Deaths of users of a queue; `test_queue_deaths.py` runs it. Arguments: FUNCTION and its arguments."""

import contextlib
import os
import queue
import select
import signal
import sys
import threading

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


def watch():
    global answers
    answers = st.Queue()
    if (ready := os.fork()) == 0:
        messages.fileno()
        answers.put("watching")
        while True:
            assert select.select([messages], [], [], 60)[0]
            with contextlib.suppress(queue.Empty):
                answers.put(messages.get_nowait())
                os._exit(0)
    assert answers.get(timeout=60) == "watching"
    return ready


def put_and_end(fault, signal_number):  # the first attempt finds that the pipe of the watcher is missing
    if (sender := os.fork()) == 0:
        os.environ["SHMTENSOR_FAULT"] = fault
        os.environ["SHMTENSOR_FAULT_SIGNAL"] = str(int(signal_number))
        messages.put("the dead one's")
        os._exit(0)
    status = os.waitpid(sender, os.WUNTRACED)[1]
    assert os.WIFSTOPPED(status) or os.WIFSIGNALED(status), status
    return sender


def check(watcher, expected, is_swept=True):
    global answers
    assert answers.get(timeout=60) == expected
    os.waitpid(watcher, 0)
    if is_swept:
        wait_for_sweep()
    del answers


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


def message_is_done_once_although_its_consumer_was_killed_in_task_done(point):
    """Regression: it was counted, then received and counted again, so `join` returned too early."""
    global messages
    messages = st.Queue(redeliver=True)
    messages.put_many([1, 2])
    if (consumer := os.fork()) == 0:
        os.environ["SHMTENSOR_FAULT"] = point
        messages.get()
        messages.task_done()
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(consumer, 0)[1])
    wait_for_sweep()
    if point == "redeliver.cancelled":
        assert messages.get(timeout=60) == 1
        messages.task_done()
    joined = threading.Thread(target=messages.join, daemon=True)
    joined.start()
    joined.join(0.2)
    assert joined.is_alive()
    assert messages.get(timeout=60) == 2
    messages.task_done()
    joined.join(60)
    assert not joined.is_alive()


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


def consumer_stopped_while_a_producer_changes_the_ring():
    """Regression: a consumer took an old message out of the ring before, in place of the new one."""
    for i in range(40):  # the second ring begins with message 31
        messages.put(i)
    for i in range(40):
        assert messages.get() == i
    for i in range(40, 31 + 128):
        messages.put(i)
        assert messages.get() == i
    os.environ["SHMTENSOR_FAULT_SIGNAL"] = str(int(signal.SIGSTOP))
    ours, theirs = os.pipe()
    if (consumer := os.fork()) == 0:
        os.environ["SHMTENSOR_FAULT"] = "queue.take_rings"
        os.write(theirs, str(messages.get(timeout=60)).encode())
        os._exit(0)
    assert os.WIFSTOPPED(os.waitpid(consumer, os.WUNTRACED)[1])
    messages.put(31 + 128)  # the queue is empty: its first ring is used again
    os.kill(consumer, signal.SIGCONT)
    assert os.read(ours, 10) == b"159"
    os.waitpid(consumer, 0)
    wait_for_sweep()


def descriptor_is_readable_although_the_producer_was_killed(point):
    watcher = watch()
    put_and_end(point, signal.SIGKILL)
    check(watcher, "the dead one's")


def producer_killed_before_it_has_put_wakes_in_vain_at_most(point):
    watcher = watch()
    put_and_end(point, signal.SIGKILL)
    messages.put("another's")
    check(watcher, "another's")


def stopped_producer_stops_no_other():
    watcher = watch()
    stopped = put_and_end("queue.put_notify:2", signal.SIGSTOP)
    check(watcher, "the dead one's", is_swept=False)
    kill(stopped)


globals()[sys.argv[1]](*sys.argv[2:])
messages = None
wait_until(lambda: st.stats()["blocks"] == blocks - 1, what="the blocks to be free")
print("fine")
