"""SIGSTOP at every named point of a queue: its lock stays its own, and after SIGCONT all continue."""

from __future__ import annotations

import signal

import pytest

from tests.faults.test_kill_points import points
from tests.helpers.children import importing_tests, output, run_beside, run_python


@pytest.mark.thorough
@pytest.mark.parametrize("point", [p for p in points() if p.startswith(("queue.", "send.recorded"))])
def test_process_that_is_stopped_there_keeps_its_lock(point: str) -> None:
    env = {"SHMTENSOR_FAULT_SIGNAL": str(int(signal.SIGSTOP))}
    assert output(run_beside(__file__, "queue_stop_points", point, env=env)) == "fine\n"


@pytest.mark.parametrize("kind", ["Queue()", "Broadcast(4)"])
def test_message_of_a_stopped_producer_is_received_before_the_end(kind: str) -> None:
    """Regression: a shutdown waits 0.1 s for the producer; a consumer then ended before the message came."""
    point = ("queue" if kind == "Queue()" else "broadcast") + ".put_count"
    program = f"""
    import os, queue, signal
    import shmtensor as st
    from tests.helpers.children import fork

    messages = st.{kind}
    source = messages.reader() if isinstance(messages, st.Broadcast) else messages

    def produce():
        os.environ["SHMTENSOR_FAULT"] = "{point}"
        messages.put(7)

    producer = fork(produce)
    assert os.WIFSTOPPED(os.waitpid(producer, os.WUNTRACED)[1])
    messages.shutdown()
    try:
        source.get(timeout=0.2)
    except queue.Empty:
        os.kill(producer, signal.SIGCONT)
    print(*source)
    """
    env = importing_tests() | {"SHMTENSOR_FAULT_SIGNAL": str(int(signal.SIGSTOP))}
    assert output(run_python(program, env=env)) == "7\n"
