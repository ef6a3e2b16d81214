"""Processes that share GPU memory, and are killed at random instants.

``python -m probes.storm [--json FILE] [--seconds N] [--processes N] [--seed S] [--no-kills]``. Workers
exchange tensors of shmtensor's and of users' memory through queues, and check each byte that they receive.
The parent uses no CUDA; it kills workers and replaces them. `ProducerGone` is accepted if the process that it
names was killed, and so is a stream that waits for an event of such a process. All else is a fault: another
error, wrong data, a worker without progress, memory that stays. The exit status is 1 with faults. The file is
written as results arrive.
"""

from __future__ import annotations

import argparse
import gc
import logging
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from probes import storm_board as of
from probes.children import ask
from probes.deaths import SIMULATED, used_bytes, wait_until
from probes.keep import keep, limited
from probes.storm_watch import Workers
from probes.storm_worker import BACKLOG, Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60.0
SHARE = 0.75  # of the time, for the kills
LATER = 8.0  # seconds by which the end may be late
# Bytes that the driver may keep for itself; a lost chunk of shmtensor has 64 MiB.
SLACK = 0 if SIMULATED else 16 << 20


def bytes_above(before: int) -> int:
    """Return by how much the device's used bytes exceed a number, after they had time to sink."""
    wait_until(lambda: used_bytes() <= before, 5)  # the driver frees after a process's end
    return used_bytes() - before


def blocks() -> int:
    return (st.stats() or {})["blocks"]


def new_queues() -> list[Any]:
    """Return queues of each class; the last one redelivers."""
    context = mp.get_context("spawn")
    others = [context.Queue(BACKLOG), context.SimpleQueue(), st.Queue(BACKLOG)]
    return [*others, st.Queue(BACKLOG, redeliver=True)]


def blow(workers: Workers, until: float, kills: bool, write: Callable[[], None]) -> None:
    """Start the workers, and kill some until the time."""
    for rank in range(len(workers.board.rows) - 1):
        workers.start(rank)
    while time.monotonic() < until:
        time.sleep(workers.rng.uniform(0.05, 0.2))
        workers.watch()
        if kills:
            workers.strike()
        write()


def calm(workers: Workers, before: int, found: dict[str, Any]) -> None:
    """Have the workers read all messages and end; find what is left."""
    board, queues = workers.board, workers.queues
    board.order = of.DRAIN
    drained = board.rows[1:, of.DRAINED]
    workers.wait_for(lambda: bool(drained.all()) and all(each.empty() for each in queues), "empty queues")
    board.order = of.END
    workers.wait_for(lambda: not workers.running and not workers.dying, "the workers' end")
    gc.collect()
    st.gc()
    wait_until(lambda: blocks() <= before, 5)
    found["messages left"] = sum(each.qsize() for each in queues)
    found["blocks left"] = blocks() - before
    found["unread arguments"] = st.gc(older_than=0)  # of workers that were killed at their start


def run(options: argparse.Namespace, found: dict[str, Any], faults: list[str]) -> None:
    """Run everything within the time; fill in what was found, also if it raises."""
    until = time.monotonic() + SHARE * options.seconds
    device_before = ask(used_bytes)
    if isinstance(device_before, dict):
        raise RuntimeError(device_before["error"])
    folder = Path(tempfile.mkdtemp(prefix="storm-"))
    board = of.Board(folder, options.processes)
    workers = Workers(board, options.seed, new_queues(), faults)
    alarm = Alarm(board)
    logging.getLogger("shmtensor").addHandler(alarm)
    before = blocks()

    def write() -> None:
        found.update(kills=workers.kills, starts=workers.starts, **board.counts())
        found["accepted"] = dict(workers.accepted)
        keep(options.json, found)

    try:
        blow(workers, until, options.kills, write)
        calm(workers, before, found)
    finally:
        workers.close()
        workers.read_events()
        write()
        logging.getLogger("shmtensor").removeHandler(alarm)
        board.close()
        shutil.rmtree(folder)
    left = found["bytes left"] = ask(lambda: bytes_above(device_before))
    if isinstance(left, dict) or left > SLACK:
        faults.append(f"{left} bytes of the device are left")
    faults += [f"{found[name]} {name}" for name in ("messages left", "blocks left") if found[name]]


def main() -> int:
    """Run the storm, print the results, and write them to the file of `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all of it")
    parser.add_argument("--processes", type=int, default=6, help="number of concurrent workers")
    parser.add_argument("--seed", default="1", help="any text; seeds the random choices")
    parser.add_argument("--no-kills", dest="kills", action="store_false", help="kill no worker")
    options = parser.parse_args()
    faults: list[str] = []
    found: dict[str, Any] = {"simulated": SIMULATED, "seed": options.seed, "faults": faults}
    try:
        with limited(options.seconds + LATER):
            run(options, found, faults)
    except (Exception, KeyboardInterrupt):  # what was found before is of use
        faults.append(traceback.format_exc())
    keep(options.json, found)
    print(*(f"{name}: {value}" for name, value in found.items() if name != "faults"), sep="\n")
    print(*faults, f"{len(faults)} faults", sep="\n", flush=True)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
