"""Many queues, many processes of one queue, one processor, and a service whose workers are killed."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.children import importing_tests, output, run_command, run_python

PREAMBLE = """
    import gc, os, sys
    import shmtensor as st
    from tests.helpers.children import fork, wait_until
    from tests.helpers.live_resources import live_tickets

    WAIT = 60.0
    kept = st.ones(1)

    def live():
        gc.collect()
        return st.stats()["blocks"], live_tickets(), st.stats()["processes"]

    def end(pids):
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)

    before = live()
"""

NOTHING_LEFT = """
    wait_until(lambda: live() == before, 30, lambda: f"nothing to be left: {before}, {live()}")
    print("fine")
"""


def run(program: str) -> None:
    done = run_python(PREAMBLE + program + NOTHING_LEFT, timeout=150, env=importing_tests())
    assert done.stdout == "fine\n", done


@pytest.mark.timeout(180)
def test_a_thousand_queues_at_once() -> None:
    run("""
    queues = [st.Queue() for _ in range(1000)]

    def answer():
        for i, one in enumerate(queues):
            tensor = one.get(timeout=WAIT)
            assert tensor.tolist() == [i] * 100
            tensor += 1
            one.put(tensor, timeout=WAIT)

    for i, one in enumerate(queues):
        one.put(st.full(100, i))
    end([fork(answer)])
    assert [one.get(timeout=WAIT).tolist() for one in queues] == [[i + 1] * 100 for i in range(1000)]
    del queues, one
    """)


@pytest.mark.thorough
@pytest.mark.timeout(180)
@pytest.mark.parametrize("processors", ["all", "one"])
def test_64_processes_of_one_queue_receive_each_item_once(processors: str) -> None:
    bind = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})" if processors == "one" else ""
    run(f"""
    {bind}
    from tests.helpers.numbered_messages import message, number_in

    EACH, SIDES = 200, 32
    messages = st.Queue(100)
    received = st.zeros((SIDES, EACH * SIDES), "uint8")

    def produce(rank):
        for i in range(EACH):
            messages.put(message(rank * EACH + i), timeout=WAIT)

    def consume(rank):
        for item in messages:
            received[rank, number_in(item)] += 1

    consumers = [fork(lambda rank=rank: consume(rank)) for rank in range(SIDES)]
    end([fork(lambda rank=rank: produce(rank)) for rank in range(SIDES)])
    messages.shutdown()
    end(consumers)
    assert (received.numpy().sum(0) == 1).all()
    del messages, received
    """)


@pytest.mark.thorough
@pytest.mark.timeout(180)
@pytest.mark.parametrize("length", [("--kills", "60"), ("--minutes", "0.1")], ids=["kills", "minutes"])
def test_service_replaces_killed_workers_and_does_not_grow(length: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "tests.stress.queue_service", *length]
    assert output(run_command(command, timeout=150, env=importing_tests())).endswith("nothing grew\n")
