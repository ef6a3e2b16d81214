"""A process, and a victim that completes messages of a queue until it, or the manager, is killed.

`test_kill_points.py` runs it with the build that has the points. Arguments: FAULT METHOD TIMES.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

import numpy as np

import shmtensor as st
from tests.helpers.numbered_messages import message, number_in
from tests.helpers.victims import await_repair, let_victims_live

MESSAGES = 60  # in two rings
RETURNED = 12
WAIT = 30.0
# The manager returns messages only of a process that was killed with some.
WITH_MESSAGES = ["redeliver.kept:3", "redeliver.again:3", "redeliver.cancelled:3"]


def keep_some(q: st.Queue) -> None:
    """Receive the first messages, and end without completing them."""
    assert [number_in(item) for item in q.get_many(RETURNED)] == list(range(RETURNED))
    os.kill(os.getpid(), signal.SIGKILL)


def complete_all(fault: str, q: st.Queue, received: st.Tensor) -> None:
    """Be the victim: receive one message after the other, which completes the one before."""
    os.environ["SHMTENSOR_FAULT"] = fault
    if fault in WITH_MESSAGES:
        os.environ.pop("SHMTENSOR_FAULT_TOKENS")
    count = received.numpy()
    for number in range(MESSAGES // 2):
        assert number_in(q.get(timeout=WAIT)) == number
        count[0] = number + 1
    for number in range(MESSAGES // 2, MESSAGES, 5):
        assert [number_in(item) for item in q.get_many(5)] == list(range(number, number + 5))
        count[1] = number + 5
        for _ in range(5):
            q.task_done()
            count[0] += 1
    gc.collect()


def one_life(context, fault: str, _may_lose: bool) -> tuple[int, bool]:
    """Let a victim live, then receive the rest. Return its exit status; no message is lost."""
    q = st.Queue(redeliver=True)
    q.put_many(message(number) for number in range(MESSAGES))
    other = context.Process(target=keep_some, args=(q,))
    other.start()
    other.join()
    await_repair()
    assert q.qsize() == MESSAGES
    received = st.zeros(2, np.int64)
    victim = context.Process(target=complete_all, args=(fault, q, received))
    victim.start()
    victim.join()
    await_repair()
    # It may have received one message, or completed one, that it did not count.
    count = received.numpy()[0].item()
    q.shutdown()
    rest = [number_in(item) for item in q]
    first = range(max(count - 1, 0), count + 2)
    assert rest in [list(range(number, MESSAGES)) for number in first], (count, rest)
    return victim.exitcode, False


if __name__ == "__main__":
    let_victims_live(one_life, sys.argv[1], sys.argv[2], int(sys.argv[3]), WITH_MESSAGES)
