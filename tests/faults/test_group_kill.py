"""Promise 8: all processes of a session and its manager are killed simultaneously; nothing is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import subprocess
import sys
from functools import partial

import psutil
import pytest

from tests.helpers.children import (
    clean_environment,
    descendants,
    manager_pids,
    program_beside,
    run_python,
    wait_until,
)
from tests.helpers.leaks import shm_names
from tests.observer.processes import descriptors

# Prints the session and the phase reached, and stays in that phase until it is killed.
PROGRAM = program_beside(__file__, "group_kill")

PHASES = ["allocating", "sending", "in flight", "starting", "growing", "in use"]
TIMES = 10
# The next session and the command.
SWEEPERS = ["import shmtensor; shmtensor.ones(1)", "from shmtensor.cli import main; main(['gc'])"]


@pytest.mark.thorough
@pytest.mark.parametrize("phase", PHASES)
def test_group_kill_leaves_no_resources(strategy, phase) -> None:
    """Repeat ten times: no process and no socket is left, no name after the next session or `gc`."""
    rng = random.Random(phase)
    for turn in range(TIMES):
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), phase],
            env=clean_environment(SHMTENSOR_SHARING_STRATEGY=strategy),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        session = process.stdout.readline().strip()
        try:
            assert len(session) == 32, "the program did not start"
            process.wait(rng.random() * 0.3)
        except subprocess.TimeoutExpired:
            pass
        finally:
            family = descendants(process.pid)
            victims = {process.pid, *family, *manager_pids(session)}
            for kind in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: none starts another
                for pid in victims:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, kind)
            os.killpg(process.pid, signal.SIGKILL)
            process.stdout.close()
            process.wait(30)
        wait_until(partial(session_has_ended, session), timeout=5, what="all processes to be gone")
        # A killed process disappears a moment before the kernel closes what it had open.
        wait_until(lambda session=session: session not in sockets(), timeout=5, what="its socket to be gone")
        if strategy == "file_system":
            # Mappings of dead processes stay while any process reads their /proc/PID/maps.
            wait_until(partial(names_are_closed, session), timeout=10, what="its names to be closed")
            run_python(SWEEPERS[turn % 2])
        assert not shm_names(session)


def session_has_ended(session: str) -> bool:
    """Return True if no manager of the session runs and no process has its memory open."""
    return not manager_pids(session) and not any(
        session in target for pid in psutil.pids() for target in descriptors(pid).values()
    )


def names_are_closed(session: str) -> bool:
    """Return True if no name of the session is open or mapped for writing: then a read lease is granted."""
    for name in shm_names(session):
        try:
            with open(f"/dev/shm/{name}", "rb") as file:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return False
        except FileNotFoundError:
            continue  # another session's sweep removed it
    return True


def sockets() -> str:
    with open("/proc/net/unix") as file:
        return file.read()
