"""A new manager that has no descriptors left for the chunks that are registered."""

from __future__ import annotations

import contextlib
import os
import resource

import shmtensor as st
from tests.helpers.children import kill_manager_of, manager_pid, run_python

CHUNKS, ROOM = 24, 12
SIZE = 1 << 30  # so large that each tensor has a chunk of its own
LOW_NUMBERS = 60  # free numbers below the chunks' descriptors, which remain usable under a low limit


def files() -> dict[int, os.stat_result]:
    """Return the open descriptors of this process."""
    found = {}
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the descriptor that read the folder
            found[number] = os.fstat(number)
    return found


def refuse_chunks_to_a_new_manager() -> None:
    low = [os.open("/dev/null", os.O_RDONLY) for _ in range(LOW_NUMBERS)]
    kept = [st.empty(SIZE, "u1", device="cuda")]  # creates the session and a chunk of its own
    before = files()
    kept += [st.empty(SIZE, "u1", device="cuda") for _ in range(CHUNKS)]
    chunks = {number: file for number, file in files().items() if number not in before}
    assert len(chunks) >= CHUNKS
    for number in low:
        os.close(number)
    session = str(st.stats()["session"])
    limit = len(os.listdir(f"/proc/{manager_pid(session)}/fd")) - ROOM
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    kill_manager_of(session)
    assert st.stats()["blocks"] == len(kept)
    now = files()
    lost = [n for n, file in chunks.items() if n not in now or not os.path.samestat(file, now[n])]
    assert lost == []


def test_manager_keeps_open_descriptors_of_refused_requests(simulator) -> None:
    """Regression: the owner mistook the refused chunk's descriptor for its message's, and closed it.

    Another file then received the number, and would have been closed with the chunk.
    """
    code = f"from {__name__} import refuse_chunks_to_a_new_manager as case; case()"
    done = run_python(code, env=simulator.env | {"SHMTENSOR_SIM_LIMIT": str(32 * SIZE)})
    assert done.returncode == 0, done.stderr
    assert "cannot re-register an arena" in done.stderr
    assert "raise RLIMIT_NOFILE" in done.stderr
