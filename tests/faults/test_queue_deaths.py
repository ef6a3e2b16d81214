"""Deaths of users of a queue at chosen instants; `test_kill_points.py` kills at every fault point."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.children import run_python

ROOT = Path(__file__).resolve().parents[2]

PREAMBLE = """
    import os, signal, time
    import shmtensor as st
    from tests.helpers.children import kill_manager_of, wait_until

    def process(work):
        ours, theirs = os.pipe()
        if (pid := os.fork()) == 0:
            work()
            os.write(theirs, b"!")
            signal.pause()
            os._exit(0)
        assert os.read(ours, 1) == b"!"
        os.close(ours), os.close(theirs)
        return pid

    def kill(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def wait_for_sweep():
        wait_until(lambda: st.stats()["processes"] == 1, what="the dead to be noticed")

    def lose_ring():  # with the messages 31 to 39
        maker = process(lambda: [messages.put(i) for i in range(40)])
        os.kill(maker, signal.SIGSTOP)  # it cannot bring its arena to another manager
        kill_manager_of(session)
        kill(maker)
        wait_for_sweep()

    messages = st.Queue()
    session, blocks = st.stats()["session"], st.stats()["blocks"]
"""

EMPTIED = """
    del messages
    wait_until(lambda: st.stats()["blocks"] == blocks - 1, what="the blocks to be free")
    print("fine")
"""


def run(program: str, **env: str) -> None:
    done = run_python(PREAMBLE + program + EMPTIED, env={"PYTHONPATH": str(ROOT)} | env)
    assert done.stdout == "fine\n", done


def test_ring_and_message_of_dead_processes_are_mapped_together() -> None:
    """Regression: a consumer mapped the ring's arena and unmapped the message's for it, and vice versa."""
    run("""
    maker = process(lambda: [messages.put(i) for i in range(40)])
    sender = process(lambda: messages.put(st.full(3, 40)))
    kill(maker), kill(sender)
    wait_for_sweep()
    assert [messages.get(timeout=60) for _ in range(40)] == list(range(40))
    assert messages.get(timeout=60).tolist() == [40] * 3
    """)


def test_ring_in_use_outlives_its_maker_and_the_manager() -> None:
    run("""
    maker = process(lambda: [messages.put(i) for i in range(40)])
    messages.put(40)  # maps the ring
    assert [messages.get(timeout=60) for _ in range(35)] == list(range(35))
    kill(maker)
    wait_for_sweep()
    other = process(lambda: st.ones(3))
    extra = st.Queue()
    extra.put(st.ones(3))
    kill_manager_of(session)
    assert [messages.get(timeout=60) for _ in range(6)] == list(range(35, 41))
    kill(other)
    wait_for_sweep()
    del extra
    """)


def test_lost_ring_raises_once() -> None:
    """Regression: a queue whose ring was lost together with its arena was never usable again."""
    run("""
    def rest():
        got = [messages.get(timeout=60) for _ in range(31)]
        try:
            got.append(messages.get(timeout=60))
        except st.StaleHandleError:
            return got
        raise AssertionError(got)

    lose_ring()
    assert rest() == list(range(31))
    assert messages.empty()
    messages.put("next")
    assert messages.get(timeout=60) == "next"
    while messages.empty() is False:
        messages.get()
    """)


def test_messages_that_were_lost_count_as_done() -> None:
    """Regression: no consumer called `task_done` for them, so `join` waited indefinitely."""
    run("""
    lose_ring()
    assert messages.get_many() == list(range(31))
    for _ in range(31):
        messages.task_done()
    try:
        messages.get(timeout=60)
    except st.StaleHandleError:
        messages.join()
    else:
        raise AssertionError("nothing was lost")
    """)


@pytest.mark.parametrize("point", ["redeliver.cancelled", "redeliver.completed"])
def test_message_is_done_once_although_its_consumer_was_killed_in_task_done(point: str) -> None:
    """Regression: it was counted, then received and counted again, so `join` returned too early."""
    run(
        f"""
    import threading
    messages = st.Queue(redeliver=True)
    messages.put_many([1, 2])
    if (consumer := os.fork()) == 0:
        os.environ["SHMTENSOR_FAULT"] = "{point}"
        messages.get()
        messages.task_done()
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(consumer, 0)[1])
    wait_for_sweep()
    if "{point}" == "redeliver.cancelled":
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
    """,
    )


def test_immediate_shutdown_discards_lost_messages() -> None:
    """Regression: it raised StaleHandleError and left the messages after the lost ring."""
    run("""
    lose_ring()
    messages.put([st.ones(3)], timeout=60)
    messages.shutdown(immediate=True)
    assert messages.empty()
    try:
        messages.get(timeout=60)
    except st.ShutDown:
        pass
    else:
        raise AssertionError("a message that was discarded")
    """)


def test_put_after_a_lost_ring() -> None:
    run("""
    lose_ring()
    for i in range(100):
        messages.put(("new", i), timeout=60)
    assert [messages.get(timeout=60) for _ in range(31)] == list(range(31))
    try:
        messages.get(timeout=60)
    except st.StaleHandleError as error:
        assert "messages were lost" in str(error)
    else:
        raise AssertionError("nothing was lost")
    assert [messages.get(timeout=60) for _ in range(100)] == [("new", i) for i in range(100)]
    """)


def test_consumer_stopped_while_a_producer_changes_the_ring() -> None:
    """Regression: a consumer took an old message out of the ring before, in place of the new one."""
    run(
        """
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
    """,
    )


WATCHED = """
    import queue, select
    answers = st.Queue()

    def watch():
        ready = os.fork()
        if ready == 0:
            messages.fileno()
            answers.put("watching")
            while True:
                assert select.select([messages], [], [], 60)[0]
                try:
                    answers.put(messages.get_nowait())
                    break
                except queue.Empty:
                    pass
            os._exit(0)
        assert answers.get(timeout=60) == "watching"
        return ready

    def put(fault, signal_number):  # the first attempt finds that the pipe of the watcher is missing
        sender = os.fork()
        if sender == 0:
            os.environ["SHMTENSOR_FAULT"] = fault
            os.environ["SHMTENSOR_FAULT_SIGNAL"] = str(int(signal_number))
            messages.put("the dead one's")
            os._exit(0)
        status = os.waitpid(sender, os.WUNTRACED)[1]
        assert os.WIFSTOPPED(status) or os.WIFSIGNALED(status), status
        return sender

    def check(watcher, expected, is_swept=True):
        assert answers.get(timeout=60) == expected
        os.waitpid(watcher, 0)
        if is_swept:
            wait_for_sweep()
        del globals()["answers"]
"""


def run_watched(program: str) -> None:
    run(WATCHED + program)


@pytest.mark.parametrize("point", ["queue.counted", "queue.raised", "queue.put_notify:2"])
def test_descriptor_is_readable_although_the_producer_was_killed(point: str) -> None:
    run_watched(f"""
    watcher = watch()
    put("{point}", signal.SIGKILL)
    check(watcher, "the dead one's")
    """)


@pytest.mark.parametrize("point", ["queue.disarmed", "queue.put_count"])
def test_producer_killed_before_it_has_put_wakes_in_vain_at_most(point: str) -> None:
    run_watched(f"""
    watcher = watch()
    put("{point}", signal.SIGKILL)
    messages.put("another's")
    check(watcher, "another's")
    """)


def test_stopped_producer_stops_no_other() -> None:
    run_watched("""
    watcher = watch()
    stopped = put("queue.put_notify:2", signal.SIGSTOP)
    check(watcher, "the dead one's", is_swept=False)
    kill(stopped)
    """)
