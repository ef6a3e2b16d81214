"""A process, and a victim that uses the same queues until it, or the manager, is killed at a named point.

`test_kill_points.py` runs it with the build that has the points. Arguments: FAULT METHOD TIMES.
"""

from __future__ import annotations

import gc
import os
import queue
import sys

import numpy as np

import shmtensor as st
from tests.helpers.numbered_messages import message, number_in
from tests.helpers.victims import let_victims_live

ROUNDS = 3
BURST = 40  # does not fit into the first ring
SINGLES = 140  # more than the entries of the second ring, so that the queue uses the first one again
EXCHANGED = 8
WAIT = 30.0
# The manager repairs a queue only if a process was killed with a lock.
LOCKED = ["queue.put_count:3", "queue.take_count:3", "queue.ring_count", "queue.ring_cancel"]

PUT_THERE, GOT_BACK, PUT_OWN, GOT_OWN = range(4)


def use_queues(fault: str, there: st.Queue, back: st.Queue, own: st.Queue, progress: st.Tensor) -> None:
    """Be the victim: put into all queues and get from two, and count what is done."""
    os.environ["SHMTENSOR_FAULT"] = fault
    if fault in LOCKED:
        os.environ.pop("SHMTENSOR_FAULT_TOKENS")
    counts = progress.numpy()

    def put(to: st.Queue, which: int) -> None:
        to.put(message(int(counts[which])), timeout=WAIT)
        counts[which] += 1

    def get(source: st.Queue, which: int) -> None:
        assert number_in(source.get(timeout=WAIT)) == counts[which]
        counts[which] += 1

    back.fileno()
    back._claim_in(st.zeros(1, "uint64").storage(), 0)
    for _ in range(ROUNDS):
        try:
            back.get(timeout=0.001)
        except queue.Empty:
            pass
        else:
            raise AssertionError("a message that was not put")
        for _ in range(EXCHANGED):
            put(there, PUT_THERE)
        for _ in range(EXCHANGED):
            get(back, GOT_BACK)
        for _ in range(BURST):
            put(own, PUT_OWN)
        for _ in range(BURST - 1):
            get(own, GOT_OWN)
        for _ in range(SINGLES):
            get(own, GOT_OWN)
            put(own, PUT_OWN)
        get(own, GOT_OWN)
        unread = st.Queue()
        unread.fileno()
        unread.put([st.ones(3), st.ones(4)])
        del unread
    gc.collect()


def answer(victim, there: st.Queue, back: st.Queue) -> tuple[int, int, bool]:
    """Answer each message of the victim. Return the counts of both, and whether a message was lost."""
    got = put = 0
    lost = False
    while victim.is_alive() and not lost:
        try:
            if put < got:
                back.put(message(put), timeout=0.2)
                put += 1
            else:
                assert number_in(there.get(timeout=0.2)) == got, "lost or twice"
                got += 1
        except (queue.Empty, queue.Full):
            pass
        except st.StaleHandleError:
            lost = True
    return got, put, lost


class Rest:
    """The messages that a victim has left; those are lost of which only a killed manager had the arena."""

    def __init__(self, source: st.Queue, lost: bool = False) -> None:
        self.numbers: list[int] = []
        self.lost = lost
        if source.qsize() > 1:  # there is room afterwards
            self.take(source)  # waits for the repair
        source.put("end", timeout=WAIT)
        while self.take(source):
            pass

    def take(self, source: st.Queue) -> bool:
        try:
            item = source.get(timeout=WAIT)
        except st.StaleHandleError:
            self.lost = True
            return not source.empty()
        if isinstance(item, str):
            return False
        self.numbers.append(number_in(item))
        return True

    def check(self, first: tuple[int, ...], end: tuple[int, ...]) -> None:
        """Check that the numbers are all from one of `first` to before one of `end`."""
        if self.lost:
            assert sorted(set(self.numbers)) == self.numbers, self.numbers
            assert set(self.numbers) <= set(range(min(first), max(end))), (self.numbers, first, end)
        else:
            ranges = [list(range(begin, stop)) for begin in first for stop in end]
            assert self.numbers in ranges, (self.numbers, first, end)


def one_life(context, fault: str, may_lose: bool) -> tuple[int, bool]:
    """Let a victim live, then use the queues alone. Return its exit status, and whether one was lost."""
    queues = st.Queue(), st.Queue(6), st.Queue()
    there, back, own = queues
    progress = st.zeros(4, np.int64)
    victim = context.Process(target=use_queues, args=(fault, there, back, own, progress))
    victim.start()
    got, put, lost = answer(victim, there, back)
    victim.join()
    # The victim may have done one thing that it did not count.
    counts = [(count, count + 1) for count in progress.numpy().tolist()]
    rest = Rest(there, lost), Rest(back), Rest(own)
    rest[0].check((got,), counts[PUT_THERE])
    rest[1].check(counts[GOT_BACK], (put,))
    rest[2].check(counts[GOT_OWN], counts[PUT_OWN])
    lost = any(one.lost for one in rest)
    assert not lost or may_lose, "messages are lost"
    for one in queues:
        assert one.empty()
        one.put([st.ones(3), st.ones(4)], timeout=WAIT)  # stays unread
    return victim.exitcode, lost


if __name__ == "__main__":
    let_victims_live(one_life, sys.argv[1], sys.argv[2], int(sys.argv[3]), LOCKED)
