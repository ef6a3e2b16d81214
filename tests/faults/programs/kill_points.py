"""A survivor, and a victim that performs every operation until it is killed at a named point.

`test_kill_points.py` runs it with the build that has the points. Arguments: FAULT METHOD TIMES.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import random
import resource
import signal
import sys
import time
from multiprocessing.reduction import ForkingPickler

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import manager_pids, wait_until
from tests.helpers.datagrams import Mailbox
from tests.helpers.victims import make_tokens

ROUNDS = 4
WRONG_BYTES = 77


def check(item) -> None:
    value, tensor = item
    if not (tensor.numpy() == value).all():
        os._exit(WRONG_BYTES)


def fresh(rng: random.Random):
    value = rng.randrange(1 << 30)
    return value, st.full(rng.choice([1, 100, 5000]), value, np.int64)


def await_item(box: Mailbox):
    deadline = time.monotonic() + 30
    while (item := box.receive()) is None:
        assert time.monotonic() < deadline, "nothing was received"
        box.wait()
    return item


def retire_arenas() -> None:
    """Make tensors that need arenas of their own, one after the other."""
    for mib in 130, 140:
        st.empty(mib << 20, np.uint8)


def run_all_operations(fault: str, mine: Mailbox, survivors: Mailbox) -> None:
    """Be the victim. The survivor returns what it receives, each time with a tensor of its own."""
    if not fault.startswith("manager."):
        os.environ["SHMTENSOR_FAULT"] = fault
    rng = random.Random(os.getpid())
    session = None
    for _ in range(ROUNDS):
        for strategy in mp.get_all_sharing_strategies():
            mp.set_sharing_strategy(strategy)
            sent = [fresh(rng) for _ in range(3)]
            for item in sent:
                survivors.send(item)
            del item
            sent.pop()  # the survivor may be the last holder
            kept = []
            for _ in range(6):  # three are returned, three are the survivor's own
                kept.append(await_item(mine))
                check(kept[-1])
            message = ForkingPickler.dumps(kept[-1])  # forwards a received tensor
            pickle.loads(message)
            if (pid := os.fork()) == 0:
                for item in kept:
                    check(item)
                os._exit(0)
            os.waitpid(pid, 0)
            kept.clear()
            sent.clear()
            gc.collect()
            with contextlib.suppress(st.StaleHandleError):
                pickle.loads(message)  # unless the survivor still holds it
            message = ForkingPickler.dumps(st.ones(10))
            pickle.loads(message)
            with contextlib.suppress(st.StaleHandleError):
                pickle.loads(message)
                os._exit(WRONG_BYTES)
            grown = st.full(3 << 20, 1, np.uint8)
            assert grown.numpy()[-1] == 1
            del grown
            if "retire" in fault:
                retire_arenas()
        session = st.stats()["session"]
        if fault.startswith(("session.", "manager.")):
            for pid in manager_pids(session):
                os.kill(pid, signal.SIGKILL)


def survive(victim, mine: Mailbox, victims: Mailbox, held: list) -> None:
    """Answer until the victim has ended."""
    rng = random.Random(1)
    while victim.is_alive():
        item = mine.receive()
        if item is None:
            mine.wait(victim.sentinel)
            continue
        check(item)
        held.append(item)
        victims.send(item)
        own = fresh(rng)
        victims.send(own)
        if rng.random() < 0.5:
            held.append(own)
        if len(held) > 8:
            del held[:4]


def main(fault: str, method: str, times: int) -> None:
    tokens = make_tokens(times)
    if fault.startswith("manager."):
        os.environ["SHMTENSOR_FAULT"] = fault  # applies to managers that this process starts
    if "retire" in fault:  # small arenas
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    context = mp.get_context(method)
    before = 0
    held: list = [(7, st.full(100, 7, np.int64))]
    session = st.stats()["session"]
    for _ in range(times + 1):
        boxes = Mailbox(), Mailbox()
        victim = context.Process(target=run_all_operations, args=(fault, boxes[0], boxes[1]))
        victim.start()
        survive(victim, boxes[1], boxes[0], held)
        victim.join()
        assert victim.exitcode in (0, -signal.SIGKILL), victim.exitcode
        for item in held:
            check(item)
        for box in boxes:
            box.close()
        del box, boxes
    assert victim.exitcode == 0, "the last victim was not killed"
    assert not os.listdir(tokens), f"it was killed {times - len(os.listdir(tokens))} times, not {times}"
    wait_until(lambda: st.stats()["processes"] == 1, what="the dead to be noticed")
    del item
    held.clear()
    gc.collect()
    st.gc(older_than=0)
    stats = st.stats()
    assert (stats["blocks"], stats["in_flight"]) == (before, 0), stats
    again = [st.full(1000, i) for i in range(100)]
    assert all((tensor.numpy() == i).all() for i, tensor in enumerate(again))
    assert stats["session"] == session
    print("fine")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
