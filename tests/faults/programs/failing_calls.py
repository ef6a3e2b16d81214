"""Senders that exit with unread messages, and a killed manager, while system calls fail: no message is lost.

`test_failing_calls.py` runs it. Arguments: a strategy, a seed, seconds.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from tests.helpers.children import manager_pids

SENDERS = 3  # at a time
TIMEOUT = 60.0


def again(call: Callable[[], Any]) -> Any:
    """Repeat until the call succeeds; a shortage is an error each time, a loss fails the test."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            return call()
        except st.StaleHandleError:
            raise
        except (st.SessionError, st.OutOfSharedMemory, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def send(folder: Path, number: int) -> None:
    """Send a few letters, then exit or wait for SIGKILL."""
    rng = random.Random(number)
    for letter in range(rng.randrange(1, 4)):
        size = rng.choice((10, 5_000, 300_000))
        tensor = again(lambda size=size: st.full(size, number))

        def write(letter: int = letter, tensor: st.Tensor = tensor) -> None:
            new = folder / f"new-{number}-{letter}"
            with _core.SendScope() as message:
                new.write_bytes(ForkingPickler.dumps((number, tensor)))
                new.rename(folder / f"letter-{number}-{letter}")
                message.delivered()

        again(write)
        del tensor, write
    os.kill(os.getpid(), rng.choice((signal.SIGKILL, signal.SIGTERM)))


def read(path: Path) -> None:
    content = path.read_bytes()
    number, tensor = again(lambda: pickle.loads(content))
    assert (tensor.numpy() == number).all()
    path.unlink()


def main() -> None:
    strategy, seed, seconds = sys.argv[1:4]
    rng = random.Random(seed)
    mp.set_sharing_strategy(strategy)
    folder = Path(tempfile.mkdtemp())
    again(lambda: st.zeros(1))  # a member that holds nothing: a fork needs no slot
    session = str(again(st.stats)["session"])
    end = time.monotonic() + float(seconds)
    senders: set[int] = set()
    letters: dict[Path, float] = {}  # when to read them
    sent = done = kills = 0
    while time.monotonic() < end or senders or letters:
        while len(senders) < SENDERS and time.monotonic() < end:
            sent += 1
            if (pid := os.fork()) == 0:
                try:
                    send(folder, sent)
                finally:
                    os._exit(1)
            senders.add(pid)
        for pid in list(senders):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                assert os.WIFSIGNALED(status), f"a sender failed: {status}"
                senders.remove(pid)
        for path in folder.glob("letter-*"):
            letters.setdefault(path, time.monotonic() + rng.random() * 0.7)
        for path in [path for path, when in letters.items() if when < time.monotonic()]:
            read(path)
            del letters[path]
            done += 1
        # Only the manager keeps the memfd of a dead sender open.
        if strategy == "file_system" and rng.random() < 0.03:
            for pid in manager_pids(session):
                os.kill(pid, signal.SIGKILL)
                kills += 1
        time.sleep(0.01)
    deadline = time.monotonic() + TIMEOUT
    while (left := again(lambda: (st.gc(), st.stats())[1]))["blocks"] or left["in_flight"]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    folder.rmdir()
    print(f"{done} letters read, {sent} senders, {kills} managers killed")


main()
