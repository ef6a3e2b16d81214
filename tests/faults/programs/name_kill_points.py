"""A reader of a name, and a victim that changes names until it is killed at a named point.

`test_kill_points.py` runs it with the build that has the points. Arguments: FAULT METHOD TIMES.
"""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import wait_until
from tests.helpers.victims import make_tokens

ROUNDS = 4


def version(number: int) -> dict:
    """Return an object with three blocks: a tensor, a private array, and what names them."""
    return {"number": number, "tensor": st.full(1000, number), "array": np.full(1000, number)}


def check(found: dict) -> int:
    number = found["number"]
    assert (found["tensor"].numpy() == number).all(), found
    assert (found["array"] == number).all(), found
    return number


def change_names(fault: str, first: int) -> None:
    """Be the victim."""
    os.environ["SHMTENSOR_FAULT"] = fault
    for number in range(first, first + ROUNDS):
        st.publish("replaced", version(number))
        check(st.once("removed", lambda: version(7)))
        st.unpublish("removed")


def settle(processes: int) -> None:
    """Wait until deaths are noticed, and discard the messages of the dead."""
    wait_until(lambda: st.stats()["processes"] == processes, what="the dead to be noticed")
    st.gc(older_than=0)


def main(fault: str, method: str, times: int) -> None:
    tokens = make_tokens(times)
    context = mp.get_context(method)
    st.publish("replaced", version(0))
    blocks = st.stats()["blocks"]
    for round_ in range(times + 1):
        seen = 0
        victim = context.Process(target=change_names, args=(fault, round_ * ROUNDS))
        victim.start()
        while victim.is_alive():
            seen = check(st.attach("replaced"))  # the old or the new one, never none
        victim.join()
        assert victim.exitcode in (0, -signal.SIGKILL), victim.exitcode
        assert check(st.attach("replaced")) >= seen
        settle(1)
        check(st.once("removed", lambda: version(7), timeout=30))
        st.unpublish("removed")
        assert st.stats()["blocks"] == blocks, "what a killed process replaced is released"
    assert victim.exitcode == 0, "the last victim was not killed"
    assert not os.listdir(tokens), "every kill happened"
    st.publish("replaced", version(5))
    assert check(st.attach("replaced")) == 5
    st.unpublish("replaced")
    settle(1)
    stats = st.stats()
    assert (stats["blocks"], stats["in_flight"]) == (0, 0), stats
    print("fine")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
