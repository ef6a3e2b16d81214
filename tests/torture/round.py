"""One round in its own process; the last line of output is the result."""

from __future__ import annotations

import ctypes
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import shmtensor.multiprocessing as mp
from shmtensor import _core
from tests.helpers.cgroups import MemoryCgroup
from tests.helpers.datagrams import Mailbox
from tests.observer import processes
from tests.observer.leftovers import ProcessResources, shared_pages
from tests.torture import run_state as states
from tests.torture.checkpoints import Violation
from tests.torture.director import Director
from tests.torture.ledger import Ledger
from tests.torture.run_state import RunState

GROUP_SIZE = 192 << 20
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: forked children of killed actors, and managers, become its children


def prepare() -> None:
    """Start what runs for the whole round."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    mp.get_context("forkserver").set_forkserver_preload(["tests.torture.actor"])
    resource_tracker.ensure_running()
    forkserver.ensure_running()


def sweep_names() -> None:
    """Start another session of this user, which removes the names of a killed session."""
    code = "import os; os.environ.pop('SHMTENSOR_SESSION', None); import shmtensor; shmtensor.ones(1)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def main() -> None:
    seed, number, actors, slices, seconds = sys.argv[1:6]
    name = f"{seed}/{number}"
    rng = random.Random(f"plan of {name}")
    prepare()
    before = ProcessResources.take()
    begin, pages = time.monotonic(), shared_pages()
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    boxes = [Mailbox() for _ in range(int(actors))]
    ledger = Ledger()
    cgroup = MemoryCgroup.make(GROUP_SIZE, "shmtensor-torture")
    allow_data_loss = rng.random() < 0.25
    run_state = RunState(
        name,
        _core.home_id(),
        folder / "run_state",
        boxes,
        ledger.writer,
        int(actors),
        allow_data_loss,
        has_queues=not allow_data_loss or rng.random() < 0.5,
        cgroup=cgroup,
    )
    director = Director(run_state, ledger)
    result: dict = {"round": number, "allow_data_loss": allow_data_loss}
    try:
        for _ in range(int(slices)):
            director.play(float(seconds), drains=rng.random() < 0.6)
        abrupt = rng.random() < 0.3
        if not abrupt:  # an unread message for this process would keep the session alive
            director.play(0, drains=True)
        director.end(abrupt)
        for box in boxes:
            box.close()
        ledger.close()
        if abrupt:
            director.wait_for_deaths()
            sweep_names()
        rows = director.board[1:].sum(axis=0).tolist()
        counts = director.counts
        counts.update(ledger.counts)
        for what, column in (
            ("received", states.RECEIVED),
            ("operations", states.OPERATIONS),
            ("refused under a limit", states.REFUSED),
            ("switches of greenlets", states.SWITCHES),
            ("received from broadcasts", states.PAGES),
            ("deaths of owners of locks", states.OWNERS_DIED),
        ):
            counts[what] += rows[column]
        counts["forks"] += rows[states.FORKS]
        counts["lost with all holders of the memfd"] += rows[states.LOST]
        if cgroup is not None and (kills := cgroup.kills()):
            raise Violation(f"the out-of-memory killer killed {kills} processes of the memory cgroup")
        director.board = None  # its mapping has a descriptor
        director.check_start(before)
        shutil.rmtree(folder)
    except Exception as error:
        result["fault"] = (
            f"{error if isinstance(error, Violation) else traceback.format_exc()}\nkept: {folder}"
        )
        result["fault"] += f"\n{director.describe([])}\nkilled for memory: {cgroup.kills() if cgroup else 0}"
        director.injector.kill_all(director.family())
    if cgroup is not None:
        cgroup.remove()
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    result["counts"] = dict(director.counts)
    result["processor_seconds"] = sum(u.ru_utime + u.ru_stime for u in usage)
    result["seconds"] = time.monotonic() - begin
    result["shared_pages_more"] = shared_pages() - pages
    result["managers_left"] = processes.managers(run_state.session)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
