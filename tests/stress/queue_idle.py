"""Processes that wait in a queue in each way there is: `python -m tests.stress.queue_idle --minutes 10`.

While they wait, the processor time of each and of the session's manager is measured. Then each gets what it
waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import queue
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import shmtensor as st
from tests.helpers.children import manager_pid, wait_until

DEADLINE = 60.0  # of all that does not depend on the length of the wait
LONG = 30.0  # the timeout of one get in a loop
TICKS = os.sysconf("SC_CLK_TCK")


def get(tasks: st.Queue) -> object:
    return tasks.get()


def get_with_timeouts(tasks: st.Queue) -> object:
    while True:
        with contextlib.suppress(queue.Empty):
            return tasks.get(timeout=LONG)


def get_in_event_loop(tasks: st.Queue) -> object:
    return asyncio.run(tasks.aget())


def select_descriptor(tasks: st.Queue) -> object:
    while True:
        select.select([tasks.fileno()], [], [])
        with contextlib.suppress(queue.Empty):
            return tasks.get_nowait()


WAYS: dict[str, Callable[[st.Queue], object]] = {
    "get": get,
    "get(timeout)": get_with_timeouts,
    "aget": get_in_event_loop,
    "select": select_descriptor,
}


@dataclass
class Waiter:
    pid: int
    wake: Callable[[], None]  # makes what it waits for happen
    spent: float = 0.0  # seconds of processor time during the wait


@dataclass
class Report:
    seconds: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)  # of each process, in seconds of processor time
    problems: list[str] = field(default_factory=list)


def processor_time(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def is_asleep(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(") ", 1)[1][0] == "S"


def start(wait: Callable[[], object]) -> int:
    """Fork a process that waits, and exits with 0 if it got the message."""
    if (pid := os.fork()) != 0:
        return pid
    status = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        status = 0 if wait() == "message" else 2
    except BaseException as error:
        print(f"process {os.getpid()}: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def start_waiters() -> dict[str, Waiter]:
    """Start a process for each way to wait, each in a queue of its own."""
    waiters: dict[str, Waiter] = {}
    for name, way in WAYS.items():
        tasks: st.Queue = st.Queue()
        pid = start(lambda way=way, tasks=tasks: way(tasks))
        waiters[name] = Waiter(pid, lambda tasks=tasks: tasks.put("message"))

    full: st.Queue = st.Queue(1)
    full.put("first")

    def put() -> object:
        full.put("second")
        return "message"

    def make_room() -> None:
        assert [full.get(timeout=DEADLINE) for _ in range(2)] == ["first", "second"]

    waiters["put"] = Waiter(start(put), make_room)

    broadcast: st.Broadcast = st.Broadcast(4)

    def read() -> object:
        with broadcast.reader() as reader:
            return reader.get()

    pid = start(read)
    wait_until(lambda: broadcast.readers == 1, DEADLINE, "the reader to join")
    waiters["reader"] = Waiter(pid, lambda: broadcast.put("message"))
    return waiters


def exit_status(pid: int) -> int:
    """Return how a process ended; kill one that does not end in time."""
    ended = 0
    with contextlib.suppress(AssertionError):
        wait_until(
            lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None, DEADLINE
        )
        ended = 1
    if not ended:
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def idle(seconds: float) -> Report:
    report = Report()
    kept = st.ones(1)  # so that there is a session with a manager
    waiters = start_waiters()
    for name, waiter in waiters.items():
        wait_until(lambda pid=waiter.pid: is_asleep(pid), DEADLINE, f"{name} to sleep")
    time.sleep(0.2)  # what begins the wait: importing, joining, spinning
    pids = {name: waiter.pid for name, waiter in waiters.items()} | {
        "manager": manager_pid(st.stats()["session"])
    }
    began = time.monotonic()
    before = {name: processor_time(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    report.spent = {name: processor_time(pid) - before[name] for name, pid in pids.items()}
    report.seconds = time.monotonic() - began
    for name, waiter in waiters.items():
        waiter.wake()
        if (status := exit_status(waiter.pid)) != 0:
            report.problems.append(f"{name} ended with {status} instead of its message")
    del kept
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    report = idle(parser.parse_args().minutes * 60)
    print(f"processor time during {report.seconds:.1f} s of waiting:")
    for name, spent in report.spent.items():
        print(f"{name:14}{spent:8.2f} s {spent / report.seconds:9.4%}")
    print("\n".join(report.problems) or "every waiter got its message")
    return bool(report.problems)


if __name__ == "__main__":
    sys.exit(main())
