"""Lives of processes that are killed at a fault point, and what must hold after them."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import wait_until
from tests.helpers.live_resources import live_tickets

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 100.0


class OneLife(Protocol):
    """Lets a victim live. Returns its exit status, and whether a message was lost."""

    def __call__(self, context, fault: str, may_lose: bool, /) -> tuple[int, bool]: ...


def let_victims_live(
    one_life: OneLife, fault: str, method: str, times: int, faults_of_victims: Sequence[str]
) -> None:
    """Repeat lives until victims, or managers, were killed so many times, then check what is left.

    For a fault of the manager, the victims are killed at `faults_of_victims`, in turn, so that it has to act.
    """
    tokens = make_tokens(times)
    of_manager = fault.startswith("manager.")
    if of_manager:
        os.environ["SHMTENSOR_FAULT"] = fault  # applies to managers that this process starts
    context = mp.get_context(method)
    kept = st.ones(1)
    before = st.stats()["blocks"]
    session = st.stats()["session"]
    deadline = time.monotonic() + SECONDS
    lives = 0
    lost_any = False
    while os.listdir(tokens):
        assert time.monotonic() < deadline, f"killed {times - len(os.listdir(tokens))} times, not {times}"
        victims_fault = faults_of_victims[lives % len(faults_of_victims)] if of_manager else fault
        status, lost = one_life(context, victims_fault, of_manager)
        assert status in (0, -signal.SIGKILL), status
        lost_any = lost_any or lost
        lives += 1
    os.environ.pop("SHMTENSOR_FAULT", None)
    assert one_life(context, "", False) == (0, False)
    await_repair()
    gc.collect()
    wait_until(lambda: st.stats()["blocks"] == before, what="the blocks to be free")
    # The names of the tickets in a lost ring are lost, too.
    assert lost_any or live_tickets() == 0
    assert st.stats()["session"] == session
    assert kept.tolist() == [1]
    print("fine")


def make_tokens(times: int) -> str:
    """Allow so many kills; return the folder, where each kill removes a file."""
    tokens = os.environ["SHMTENSOR_FAULT_TOKENS"]
    for i in range(times):
        Path(tokens, str(i)).touch()
    return tokens


def await_repair() -> None:
    """Wait until a manager has noticed the deaths; `stats` starts one if it was killed."""
    wait_until(lambda: st.stats()["processes"] == 1, what="the dead to be noticed")
