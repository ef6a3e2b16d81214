"""A storm: processes at both ends of pipes are killed, and the manager; the other end goes on to its end.

`python -m tests.processes.pipe_storm 1000` prints how long after a kill the other process gets the end.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from statistics import median
from typing import Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.errors import StaleHandleError
from tests.helpers.children import manager_pids
from tests.helpers.live_resources import assert_no_leaks

__all__ = ["run"]

SECONDS = 60
KILLS_OF_A_MANAGER = 50  # processes from one to the next


def send(connection: Any, number: int) -> None:
    match number % 4:
        case 0:
            connection.send((number, bytes([number % 256]) * (number % 300)))
        case 1:
            connection.send([number, st.full(100, number)])
        case 2:
            connection.send(np.full(3000, number))
        case 3:
            connection.send_bytes(number.to_bytes(8, "little") * 50)


def receive(connection: Any, number: int) -> None:
    """Receive a message, and check that it is the whole one with this number."""
    if number % 4 == 3:
        content = connection.recv_bytes()
        assert content == number.to_bytes(8, "little") * 50, f"message {number} is {content[:16]!r}"
        return
    message = connection.recv()
    if number % 4 == 0:
        same = message == (number, bytes([number % 256]) * (number % 300))
    elif number % 4 == 1:
        same = message[0] == number and message[1].tolist() == [number] * 100
    else:
        same = len(message) == 3000 and (message == number).all()
    assert same, f"{message}, not {number}"


def talk(connection: Any, side: int, sent: Any, watches: bool) -> tuple[float, int, bool]:
    """Send and receive until the other end has ended.

    `sent` has the number of messages that each side has sent. Return the time of the end, the number of those
    that were received, and whether some were lost.
    """
    number, received, lost = 0, 0, False
    try:
        while True:
            number += 1
            send(connection, number)
            sent[side] = number
            if watches:
                wait([connection], SECONDS)
            while number % 16 == 0 or connection.poll():
                receive(connection, received + 1)
                received += 1
                number += 1
                send(connection, number)
                sent[side] = number
    except (EOFError, BrokenPipeError):
        pass
    except StaleHandleError:
        lost = True
    while True:
        try:
            if lost:
                connection.recv_bytes()
            else:
                receive(connection, received + 1)
                received += 1
        except StaleHandleError:
            lost = True
        except EOFError:
            end = time.monotonic()
            break
    assert lost or received >= sent[1 - side], f"{received} messages were received, {sent[1 - side]} sent"
    try:
        connection.send(None)
    except BrokenPipeError:
        return end, received, lost
    raise AssertionError("a message was sent to an end that no process has")


def talk_and_report(connection: Any, side: int, sent: Any, watches: bool, reports: Any) -> None:
    try:
        reports.send(talk(connection, side, sent, watches))
    except BaseException:
        reports.send(traceback.format_exc())
        raise


def be_new(other: Any, connection: Any, sent: Any, watches: bool, reports: Any) -> None:
    """Talk once."""
    other.close()
    with connection:
        talk_and_report(connection, 1, sent, watches, reports)


def be_steady(writer: Any, reader: Any, reports: Any) -> None:
    """Talk through each connection that comes."""
    writer.close()
    with suppress(EOFError):
        while True:
            connection, sent, watches = reader.recv()
            with connection:
                talk_and_report(connection, 0, sent, watches, reports)
            del connection, sent


@dataclass
class Seen:
    messages: int = 0
    losses: int = 0  # pipes of which messages were lost, with the manager
    seconds: list[float] = field(default_factory=list)  # from a kill to the end
    seconds_with_manager: list[float] = field(default_factory=list)  # which was killed at the same time


def run(kills: int) -> Seen:
    """Kill so many processes; return what the others saw."""
    context: Any = mp.get_context("fork")
    seen, steady, outbox = Seen(), None, None
    answers, reports = context.Pipe(duplex=False)
    for number in range(1, kills + 1):
        if steady is None:
            inbox, outbox = context.Pipe(duplex=False)
            steady = context.Process(target=be_steady, args=(outbox, inbox, reports), daemon=True)
            steady.start()
            inbox.close()
        first, second = context.Pipe()
        sent, watches = st.zeros(2, dtype="int64"), random.random() < 0.25
        new = context.Process(target=be_new, args=(first, second, sent, watches, reports), daemon=True)
        new.start()
        second.close()
        outbox.send((first, sent, watches))
        first.close()
        time.sleep(random.random() * 0.01)
        victim = random.choice((new, new, new, steady))
        with_manager = number % KILLS_OF_A_MANAGER == 0
        if with_manager:
            for pid in manager_pids(st.stats()["session"]):
                os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        victim.kill()
        assert answers.poll(SECONDS), f"no end for {SECONDS} s after kill {number}"
        report = answers.recv()
        assert isinstance(report, tuple), report
        (seen.seconds_with_manager if with_manager else seen.seconds).append(report[0] - killed)
        seen.messages += report[1]
        # The memory of the killed process is known to the manager only, unless the other one has used it.
        assert with_manager or not report[2], f"messages were lost after kill {number}"
        seen.losses += report[2]
        new.join()
        new.close()
        if victim is steady:
            steady.join()
            steady.close()
            outbox.close()
            steady = None
    if steady is not None:
        outbox.close()
        steady.join()
        assert steady.exitcode == 0
        steady.close()
    reports.close()
    answers.close()
    return seen


def describe(name: str, seconds: list[float]) -> str:
    middle, longest = median(seconds) * 1e3, max(seconds) * 1e3
    return f"{name}: {len(seconds)} kills, median {middle:.2f} ms, longest {longest:.1f} ms"


if __name__ == "__main__":
    with assert_no_leaks():
        result = run(int(sys.argv[1]))
    print(f"{result.messages} messages; some lost in {result.losses} pipes")
    print(describe("a process", result.seconds))
    if result.seconds_with_manager:
        print(describe("with the manager", result.seconds_with_manager))
