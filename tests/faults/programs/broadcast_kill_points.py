"""A process, and a victim that uses the same broadcasts until it, or the manager, is killed at a named point.

`test_kill_points.py` runs it with the build that has the points. Arguments: FAULT METHOD TIMES.
"""

from __future__ import annotations

import gc
import os
import queue
import sys

import numpy as np

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.numbered_messages import message, number_in
from tests.helpers.victims import let_victims_live

ROUNDS = 3
EXCHANGED = 12
MAXSIZE = 5
WAIT = 30.0
# A repair follows the death of a writer with the lock, or of a reader.
LOCKED = ["broadcast.put_count:3", "broadcast.take_held:3", "broadcast.put_cancel:8", "broadcast.joined:3"]


def use_broadcasts(fault: str, there: st.Broadcast, back: st.Broadcast, progress: st.Tensor) -> None:
    """Be the victim: read the one, write into the other, and count what was put."""
    os.environ["SHMTENSOR_FAULT"] = fault
    if fault in LOCKED:
        os.environ.pop("SHMTENSOR_FAULT_TOKENS")
    put = progress.numpy()
    for _ in range(ROUNDS):
        with there.reader() as reader:
            first = number_in(reader.get(timeout=WAIT))
            for i in range(1, EXCHANGED):
                assert number_in(reader.get(timeout=WAIT)) == first + i, "a reader misses a message"
            assert reader.missed == 0
        for _ in range(EXCHANGED):
            back.put(message(int(put[0])), timeout=WAIT)
            put[0] += 1
        own = st.Broadcast(MAXSIZE, on_full="drop_oldest")
        slow, fast = own.reader(), own.reader()
        for i in range(3 * MAXSIZE):
            own.put(message(i))
            assert number_in(fast.get(timeout=WAIT)) == i
        assert number_in(slow.get(timeout=WAIT)) == 2 * MAXSIZE
        assert slow.missed == 2 * MAXSIZE
        del own, slow, fast
    gc.collect()


class Survivor:
    """Writes into the one, and reads both."""

    def __init__(self) -> None:
        self.there: st.Broadcast = st.Broadcast(MAXSIZE)
        self.back: st.Broadcast = st.Broadcast(MAXSIZE)
        self.own = self.there.reader()
        self.answers = self.back.reader()
        self.put = self.got = self.answered = 0
        self.lost = False

    def step(self) -> None:
        """Put a message if there is room, and read what is there."""
        try:
            self.there.put(message(self.put), timeout=0.02)
            self.put += 1
        except queue.Full:
            pass
        self.read(0)

    def read(self, ends: int) -> None:
        """Read what is there, or until so many ends."""
        for reader in (self.own, self.answers):
            found = 0
            while ends == 0 or found < ends:
                try:
                    item = reader.get(block=ends != 0, timeout=WAIT)
                except queue.Empty:
                    assert ends == 0
                    break
                except st.StaleHandleError:
                    self.lost = True
                    continue
                if isinstance(item, str):
                    found += 1
                elif reader is self.own:
                    assert number_in(item) == self.got, "lost or twice"
                    self.got += 1
                else:
                    number = number_in(item)
                    assert number == self.answered or (self.lost and number > self.answered), "lost or twice"
                    self.answered = number + 1

    def end(self, counted: int) -> None:
        """Check what the victim left, and that all can be used."""
        self.read(0)
        for broadcast in (self.there, self.back):
            broadcast.put("end", timeout=WAIT)  # waits for the repair
        self.read(1)
        assert self.got == self.put
        # The victim may have put one message that it did not count.
        assert self.lost or self.answered in (counted, counted + 1), (self.answered, counted)
        wait_until(lambda: (self.there.readers, self.back.readers) == (1, 1), what="the dead to leave")


def one_life(context, fault: str, may_lose: bool) -> tuple[int, bool]:
    """Let a victim live, then use the broadcasts alone. Return its exit status, and whether one was lost."""
    survivor = Survivor()
    progress = st.zeros(1, np.int64)
    victim = context.Process(target=use_broadcasts, args=(fault, survivor.there, survivor.back, progress))
    victim.start()
    while victim.is_alive():
        survivor.step()
    victim.join()
    survivor.end(progress.tolist()[0])
    assert not survivor.lost or may_lose, "messages are lost"
    survivor.there.put([st.ones(3), st.ones(4)], timeout=WAIT)  # stays unread
    return victim.exitcode, survivor.lost


if __name__ == "__main__":
    let_victims_live(one_life, sys.argv[1], sys.argv[2], int(sys.argv[3]), LOCKED)
