"""Promises 6 and 7: SIGKILL at any instant loses nothing and leaves nothing."""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import time

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end, wait_until
from tests.helpers.datagrams import Mailbox

WORKERS = 4
KILLS = 260  # for each strategy and start method, so that all together are more than a thousand
WRONG_BYTES = 77


def work(seed: int, mine: Mailbox, boxes: list[Mailbox], tally_path: str, rank: int) -> None:
    """Allocate, send, receive, forward, check and free until killed."""
    rng = random.Random(seed)
    held: list[tuple[int, st.Tensor]] = []
    with open(tally_path, "r+b") as file:
        tally = mmap.mmap(file.fileno(), 0)
    while True:
        choice = rng.randrange(4)
        if choice == 0:
            value = rng.randrange(1 << 30)
            held.append((value, st.full(rng.choice([1, 100, 5000]), value, np.int64)))
        elif choice == 1 and held:
            rng.choice(boxes).send(rng.choice(held))
        elif choice == 2 and held:
            held.pop(rng.randrange(len(held)))
        elif (received := mine.receive()) is not None:
            value, tensor = received
            if not (tensor.numpy() == value).all():
                os._exit(WRONG_BYTES)
            held.append(received)
        if len(held) > 50:
            del held[:25]
        (count,) = struct.unpack_from("q", tally, rank * 8)
        struct.pack_into("q", tally, rank * 8, count + 1)


@pytest.mark.thorough
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("start_method", ["fork", "forkserver"])
def test_random_kills_lose_no_block(start_method: str, strategy: str, tmp_path) -> None:
    before = st.stats()
    context = mp.get_context(start_method)
    rng = random.Random(4711)
    tally = tmp_path / "tally"
    tally.write_bytes(bytes(8 * WORKERS))
    boxes = [Mailbox() for _ in range(WORKERS)]

    def start(rank: int):
        arguments = (rng.randrange(1 << 30), boxes[rank], boxes, str(tally), rank)
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        return process

    team = [start(rank) for rank in range(WORKERS)]
    ended_by_themselves = []
    for _ in range(KILLS):
        time.sleep(rng.random() * 0.04)
        rank = rng.randrange(WORKERS)
        team[rank].kill()
        team[rank].join()
        if team[rank].exitcode != -signal.SIGKILL:
            ended_by_themselves.append(team[rank].exitcode)
        team[rank] = start(rank)
    for process in team:
        process.kill()
        end(process)
    for box in boxes:
        box.close()
    operations = sum(struct.unpack(f"{WORKERS}q", tally.read_bytes()))
    print(f"{KILLS} kills, {operations} operations")
    assert not ended_by_themselves
    assert operations > 100 * KILLS, "the storm blew over an empty field"

    # Only this process is left: live blocks are those that unread messages refer to.
    wait_until(lambda: st.stats()["processes"] <= before["processes"], what="the dead to be noticed")
    st.gc(older_than=0)
    after = st.stats()
    assert after["in_flight"] == 0
    assert after["blocks"] == before["blocks"]
