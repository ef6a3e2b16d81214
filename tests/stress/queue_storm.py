"""Kills, stops and replaces the producers and consumers of one queue: `python -m tests.stress.queue_storm`.

A message may be missing only if a consumer was killed: each may have had one that it did not note. None may
be received twice. Every call has a deadline, and the longest is measured, beside the machine's delays.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import gc
import mmap
import os
import queue
import random
import signal
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import shmtensor as st
from tests.helpers.children import manager_pids, wait_until
from tests.helpers.live_resources import live_tickets
from tests.helpers.numbered_messages import message, number_in
from tests.stress.long_calls import DELAY, LongCalls

PRODUCERS = CONSUMERS = 4
DEADLINE = 60.0  # of one call
BACKLOG = 300  # messages; they need rings of three sizes
NUMBERS = 1 << 24  # messages of one process
HUNG, WRONG = 76, 77
SUPERVISOR, STOP, MARKER = range(3)  # cells of the board; then one for each process
PUT, GET = range(2)  # kinds of calls


class Board:
    """Numbers in shared memory: what each process has done, which outlives it."""

    def __init__(self, processes: int) -> None:
        self.memory = mmap.mmap(-1, 8 * (3 + processes))
        self.cells = np.frombuffer(self.memory, np.int64)
        self.calls = LongCalls()

    def done(self, life: int) -> int:
        return int(self.cells[3 + life])

    def note_call(self, life: int, kind: int, began: float) -> None:
        """Count a call, and record it if it was long."""
        self.cells[3 + life] += 1
        self.calls.note(kind, began)


@dataclass
class Result:
    kills: int = 0
    manager_kills: int = 0
    stops: int = 0
    received: int = 0
    missing: int = 0
    consumers_killed: int = 0
    lost_arenas: int = 0
    seconds: float = 0.0
    longest_put: float = 0.0
    longest_get: float = 0.0
    longest_delay: float = 0.0  # of a process that only sleeps: what the machine adds
    longest_unexplained: float = 0.0  # of a call, less the delays at the same time
    problems: list[str] = field(default_factory=list)


def produce(messages: st.Queue, board: Board, life: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(NUMBERS):
        if board.cells[STOP]:
            return
        item = message(life * NUMBERS + number)
        began = time.monotonic()
        messages.put(item, timeout=DEADLINE)
        board.note_call(life, PUT, began)
        if rng.random() < 0.02:
            time.sleep(rng.random() * 0.01)  # the queue becomes empty now and then
        while messages.qsize() > BACKLOG and not board.cells[STOP]:
            time.sleep(0.002)


def consume(messages: st.Queue, board: Board, life: int, seed: int, log: int) -> None:
    rng = random.Random(seed)
    last: dict[int, int] = {}
    kept: list[object] = []
    while True:
        began = time.monotonic()
        try:
            choice = rng.randrange(4)
            if choice == 0:
                item = messages.get_nowait()
            elif choice == 1:
                item = messages.get(timeout=0.001)
            else:
                item = messages.get(timeout=DEADLINE)
        except queue.Empty:
            if choice > 1:
                raise
            continue
        except st.StaleHandleError:
            os.write(log, struct.pack("q", -1))
            continue
        except st.ShutDown:
            return
        value = number_in(item)
        os.write(log, struct.pack("q", value))
        board.note_call(life, GET, began)
        sender, number = divmod(value, NUMBERS)
        if last.get(sender, -1) >= number:
            raise AssertionError(f"message {number} of process {sender} after {last[sender]}")
        last[sender] = number
        if sender == SUPERVISOR:
            board.cells[MARKER] = number
        kept.append(item)
        if len(kept) > rng.randrange(6):
            kept.clear()


class Storm:
    """Threads: one."""

    def __init__(self, kills: int, seed: int, limit: int, wild: bool) -> None:
        self.rng = random.Random(seed)
        self.wild = wild
        self.messages: st.Queue = st.Queue(limit)
        self.board = Board(kills + 64)
        self.log = os.memfd_create("log")
        fcntl.fcntl(self.log, fcntl.F_SETFL, os.O_APPEND)
        self.team: dict[int, tuple[int, int]] = {}  # rank: pid and life
        self.lives = 0
        self.producers: list[int] = []  # their lives
        self.result = Result()
        self.sleepers = [self.start_sleeper(processor) for processor in os.sched_getaffinity(0)]
        for rank in range(PRODUCERS + CONSUMERS):
            self.team[rank] = self.start(self.role(rank))

    @staticmethod
    def role(rank: int) -> int:
        return int(rank >= PRODUCERS)

    def start(self, role: int) -> tuple[int, int]:
        self.lives += 1
        life, seed = self.lives, self.rng.randrange(1 << 30)
        if role == PUT:
            self.producers.append(life)
            return self.fork(lambda: produce(self.messages, self.board, life, seed)), life
        return self.fork(lambda: consume(self.messages, self.board, life, seed, self.log)), life

    def start_sleeper(self, processor: int) -> int:
        ended = lambda: bool(self.board.cells[STOP])  # noqa: E731
        return self.fork(lambda: self.board.calls.only_sleep(processor, ended))

    @staticmethod
    def fork(work: Callable[[], None]) -> int:
        if (pid := os.fork()) != 0:
            return pid
        status = WRONG
        try:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no process outlives the supervisor
            work()
            status = 0
        except (queue.Full, queue.Empty):
            status = HUNG
        except BaseException as error:
            print(f"process {os.getpid()}: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    def reap(self, pid: int) -> None:
        status = os.waitpid(pid, 0)[1]
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL) and status != 0:
            what = "waited too long" if os.waitstatus_to_exitcode(status) == HUNG else "failed"
            self.result.problems.append(f"a process {what}: {status}")

    def kill_one(self) -> None:
        rank = self.rng.randrange(len(self.team))
        pid, _ = self.team[rank]
        os.kill(pid, signal.SIGKILL)
        self.reap(pid)
        self.result.kills += 1
        self.result.consumers_killed += self.role(rank)
        self.team[rank] = self.start(self.role(rank))

    def stop_one(self) -> None:
        pid, _ = self.rng.choice(list(self.team.values()))
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.rng.random() * 0.02)
        os.kill(pid, signal.SIGCONT)
        self.result.stops += 1

    def kill_manager(self) -> None:
        """Kill the manager after the messages of the dead were received, of which only it has the arenas."""
        if not self.wild:
            number = self.board.done(SUPERVISOR)
            began = time.monotonic()
            self.messages.put(SUPERVISOR * NUMBERS + number * 4, timeout=DEADLINE)
            self.board.note_call(SUPERVISOR, PUT, began)
            wait_until(lambda: self.board.cells[MARKER] == number * 4, DEADLINE, "the marker")
        for pid in manager_pids(st.stats()["session"]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.result.manager_kills += 1
        if not self.wild:
            st.stats()  # starts the next one

    def run(self, kills: int, seconds: float) -> None:
        began = time.monotonic()
        while self.result.kills < kills and time.monotonic() - began < seconds and not self.result.problems:
            time.sleep(self.rng.random() * 0.01)
            chance = self.rng.random()
            if chance < 0.01:
                self.kill_manager()
            elif chance < 0.1:
                self.stop_one()
            else:
                self.kill_one()
        self.end()
        self.result.seconds = time.monotonic() - began

    def end(self) -> None:
        """Let the producers end, then the consumers, after the last message."""
        self.board.cells[STOP] = 1
        for rank in range(PRODUCERS):
            self.reap(self.team[rank][0])
        self.messages.shutdown()
        for rank in range(PRODUCERS, PRODUCERS + CONSUMERS):
            self.reap(self.team[rank][0])
        for pid in self.sleepers:
            self.reap(pid)
        if not self.messages.empty():
            self.result.problems.append(f"{self.messages.qsize()} messages are left")

    def judge(self) -> Result:
        result = self.result
        logged = np.frombuffer(os.pread(self.log, os.fstat(self.log).st_size, 0), np.int64)
        result.lost_arenas = int((logged == -1).sum())
        values, counts = np.unique(logged[logged >= 0], return_counts=True)
        result.received = len(values)
        if (counts > 1).any():
            result.problems.append(f"{int((counts > 1).sum())} messages were received twice")
        for life in [SUPERVISOR, *self.producers]:
            step = 4 if life == SUPERVISOR else 1
            begin, end = np.searchsorted(values, [life * NUMBERS, (life + 1) * NUMBERS])
            numbers = values[begin:end] % NUMBERS // step
            done = self.board.done(life)
            if len(numbers) and numbers[-1] > done:
                result.problems.append(f"process {life} put {done}, and {numbers[-1]} was received")
            result.missing += done - int((numbers < done).sum())
        if not self.wild and result.missing > result.consumers_killed:
            result.problems.append(f"{result.missing} missing, {result.consumers_killed} consumers killed")
        if not self.wild and result.lost_arenas:
            result.problems.append(f"{result.lost_arenas} times an arena was lost")
        calls = self.board.calls
        result.longest_put, result.longest_get = calls.longest(PUT), calls.longest(GET)
        result.longest_delay = calls.longest(DELAY)
        result.longest_unexplained = max(calls.longest_unexplained(PUT), calls.longest_unexplained(GET))
        return result

    def close(self) -> None:
        os.close(self.log)
        self.board.calls.close()
        self.messages.close()
        del self.messages


def storm(kills: int, seconds: float = 1e9, seed: int = 1, limit: int = 0, wild: bool = False) -> Result:
    """Run one storm, and check what it leaves."""
    kept = st.ones(1)  # so that the session lives on
    before = st.stats()
    tickets = live_tickets()
    one = Storm(kills, seed, limit, wild)
    one.run(kills, seconds)
    result = one.judge()
    one.close()
    del one
    gc.collect()
    wait_until(lambda: st.stats()["processes"] == before["processes"], 30, "the dead to be noticed")
    try:
        if not wild:
            wait_until(lambda: st.stats()["blocks"] == before["blocks"], 10)
            wait_until(lambda: live_tickets() == tickets, 10)
    except AssertionError:
        left = st.stats()["blocks"] - before["blocks"], live_tickets() - tickets
        result.problems.append(f"{left[0]} blocks and {left[1]} tickets are left")
    del kept
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="of the queue")
    parser.add_argument("--one-processor", action="store_true")
    parser.add_argument("--wild", action="store_true", help="kill the manager when messages may be lost")
    args = parser.parse_args()
    if args.one_processor:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    result = storm(args.kills, args.seconds, args.seed, args.limit, args.wild)
    print(result)
    return bool(result.problems)


if __name__ == "__main__":
    sys.exit(main())
