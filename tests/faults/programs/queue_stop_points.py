"""A victim that is stopped at a named point of a queue, and what the others can do meanwhile.

`test_queue_stops.py` runs it with the build that has the points. Argument: POINT.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import sys

import shmtensor as st
from tests.helpers.children import fork, fork_idle, kill, wait_until
from tests.helpers.live_resources import live_tickets
from tests.helpers.numbered_messages import message, number_in
from tests.observer.queues import read_queue
from tests.observer.snapshot import opened

MESSAGES = 200  # fill two rings and begin the third
WAIT = 30.0
LONGER_THAN_A_SLICE = 1.2  # after that time, a process that waits looks for a manager


def locks() -> tuple[int, int]:
    """Return the owners of tail and head, as the observer reads them; 0 if an end is free."""
    with opened(st.stats()["session"], [os.getpid()]) as (_, arenas):
        found = [read_queue(fd, arena, block) for fd, arena in arenas for block in arena.blocks]
    (one,) = [q for q in found if q is not None]
    return one.tail.lock & 0xFFFF, one.head.lock & 0xFFFF


def start(work, point: str) -> int:
    """Fork a victim, and return when it has stopped."""

    def victim() -> None:
        os.environ["SHMTENSOR_FAULT"] = point
        work()

    pid = fork(victim)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]), "the victim does not pass the point"
    return pid


def let_another_die() -> None:
    """Let a process that has the queue be killed, so that the manager repairs the queue."""
    before = st.stats()["processes"]
    kill(fork_idle(lambda: st.ones(1)))
    wait_until(lambda: st.stats()["processes"] == before, what="the dead to be noticed")


def use_meanwhile(messages: st.Queue, got: list[int], put: list[int]) -> None:
    """Use both ends while the victim is stopped: one that it has locked is not taken from it."""
    before = locks()
    let_another_die()
    assert locks() == before, "the lock of a stopped process was taken"
    tail, head = before
    try:
        messages.put(message(MESSAGES), timeout=LONGER_THAN_A_SLICE)
        put.append(MESSAGES)
        assert not tail, "a message was put although the end is locked"
    except queue.Full:
        assert tail, "no message could be put"
    try:
        got.append(number_in(messages.get(timeout=LONGER_THAN_A_SLICE)))
        assert not head, "a message was taken although the end is locked"
    except queue.Empty:
        assert head or messages.empty(), "no message could be taken"
    assert locks() == before


def live() -> tuple[int, int]:
    return st.stats()["blocks"], live_tickets()


def exchange(name: str, messages: st.Queue) -> None:
    """Check that every message is received once, although the victim is stopped."""
    ours, theirs = os.pipe()
    tells = name in ("queue.disarmed", "queue.counted", "queue.raised")
    puts = tells or name.startswith(("queue.put", "queue.ring_count", "send."))
    put: list[int] = [] if puts or name == "queue.announced" else list(range(MESSAGES))

    def produce() -> None:
        for number in range(MESSAGES):
            messages.put(message(number), timeout=WAIT)

    def consume() -> None:
        if name in ("queue.lowered", "queue.armed"):
            messages.fileno()
        if name == "queue.take_claimed":
            messages._claim_in(st.zeros(1, "uint64").storage(), 0)
        for item in messages:
            os.write(theirs, number_in(item).to_bytes(4, "little"))

    for number in put:
        messages.put(message(number))
    if tells:
        messages.fileno()
    pid = start(produce if puts else consume, name)
    got: list[int] = []
    use_meanwhile(messages, got, put)
    os.kill(pid, signal.SIGCONT)
    messages.put(message(MESSAGES + 1), timeout=WAIT)
    put.append(MESSAGES + 1)
    if puts:
        assert os.waitpid(pid, 0)[1] == 0
        put += range(MESSAGES)
        messages.shutdown()
        got += map(number_in, messages)
    else:
        messages.shutdown()
        assert os.waitpid(pid, 0)[1] == 0
    os.close(theirs)
    with open(ours, "rb") as file:
        content = file.read()
    got += [int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]
    assert sorted(got) == sorted(put), "a message was lost, or received twice"


def main(point: str) -> None:
    kept = st.ones(1)
    before = live()
    exchange(point, st.Queue())
    gc.collect()
    wait_until(lambda: live() == before, what="all blocks and tickets to be freed")
    assert kept.tolist() == [1]
    print("fine")


if __name__ == "__main__":
    main(sys.argv[1])
