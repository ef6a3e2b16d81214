"""Jobs of ranks that a launcher starts, which use one session on each node."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

from tests.helpers.children import manager_pids, run_command, wait_until
from tests.helpers.leaks import shm_names

# What every rank's program begins with.
_START = """
    import json, os, signal, socket, sys
    from pathlib import Path

    import shmtensor as st

    def report(name, **content):
        mapped = set(Path("/proc/self/maps").read_text().split())
        of_mpi = [path for path in mapped if path.startswith("/dev/shm/") and "shmtensor" not in path]
        path = Path(sys.argv[1], f"{name}.tmp")
        path.write_text(json.dumps({"session": st.stats()["session"], "of_mpi": of_mpi, **content}))
        path.rename(path.with_suffix(".json"))

    def meet(name):
        st.publish(f"{name} {local}", True)
        for number in range(local_size):
            st.attach(f"{name} {number}", timeout=60)
"""
# The rank's number, its number on its node, how many are there, and a tensor of 1,000 numbers.
OF_MPI = """
    from mpi4py import MPI

    node = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    rank, local, local_size = MPI.COMM_WORLD.rank, node.rank, node.size

    def full(number):
        return st.full(1000, number)
"""
WITHOUT_MPI = """
    def number(name):
        return int(os.environ.get(f"OMPI_COMM_WORLD_{name}") or os.environ[f"PMI_{name}"])

    rank, local, local_size = number("RANK"), number("RANK"), number("SIZE")

    def full(number):
        return st.full(1000, number)
"""
OF_TORCHRUN = """
    import torch

    st.install("torch")
    rank, local, local_size = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))

    def full(number):
        return torch.full((1000,), number).share_memory_()
"""

# Builds once on each node, and sends a dict with a tensor to the next rank there, which writes into it.
SENDING = """
    table = st.once("table", lambda: {"builder": rank, "rows": full(7)}, timeout=60)
    inboxes = [st.once(f"inbox {number}", st.Queue, timeout=60) for number in range(local_size)]
    mine = full(rank)
    inboxes[(local + 1) % local_size].put({"sender": rank, "parts": [mine, mine[500:]]})
    got = inboxes[local].get(timeout=60)
    whole, half = got["parts"]
    whole += 100
    half += 1000
    meet("written")
    report(
        rank,
        host=socket.gethostname(),
        builder=table["builder"],
        rows=int(table["rows"].numpy().sum()),
        sender=got["sender"],
        mine=[int(mine[0]), int(mine[999])],
    )
    meet("reported")
"""

# Holds memory, with unread messages, until one of them is killed.
HOLDING = """
    st.once("table", lambda: full(7), timeout=60)
    inbox = st.once("inbox", st.Queue, timeout=60)
    kept = [full(rank) for _ in range(10)]
    inbox.put(kept)
    report(f"holding {rank}")
    meet("holding")
    if local == 1:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def write_ranks(folder: Path, *parts: str) -> list[str]:
    """Write a program of these parts; return the command of a rank, which reports into that folder."""
    path = folder / "ranks.py"
    path.write_text("".join(textwrap.dedent(part) for part in (_START, *parts)))
    return [sys.executable, str(path), str(folder)]


def reports(folder: Path) -> dict[str, dict]:
    """Return what the ranks have reported, by their numbers or other names."""
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def run_ranks(command: list[str], folder: Path, count: int, **env: str) -> dict[int, dict]:
    """Run a job of which so many ranks report and succeed, and which leaves nothing; return the reports."""
    done = run_command(command, timeout=100, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_is_left(folder)
    found = {int(name): content for name, content in reports(folder).items()}
    assert sorted(found) == list(range(count)), done.stderr
    return found


def assert_nothing_is_left(folder: Path) -> None:
    """Check that the sessions of the ranks that have reported end, as they do after their last process."""
    sessions = {one["session"] for one in reports(folder).values()}
    assert sessions
    for session in sessions:
        wait_until(
            lambda session=session: not manager_pids(session) and not shm_names(session),
            20,
            lambda session=session: f"no manager {manager_pids(session)} and no {shm_names(session)}",
        )


def remove_memory_of_mpi(folder: Path) -> None:
    """Remove what the ranks have reported of MPI's files in /dev/shm: MPICH leaves those of killed ranks."""
    for one in reports(folder).values():
        for path in one["of_mpi"]:
            Path(path).unlink(missing_ok=True)


def assert_sent_on_node(found: dict[int, dict], ranks: list[int]) -> None:
    """Check the reports of `SENDING` for the ranks of one node."""
    (builder,) = {found[rank]["builder"] for rank in ranks}
    assert builder in ranks
    assert len({(found[rank]["session"], found[rank]["host"]) for rank in ranks}) == 1
    for place, rank in enumerate(ranks):
        assert found[rank]["rows"] == 7000
        assert found[rank]["sender"] == ranks[place - 1]
        assert found[rank]["mine"] == [rank + 100, rank + 1100], "the receiver wrote into the sender's memory"
