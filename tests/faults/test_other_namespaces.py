"""Processes of one session in several namespaces, where pids and addresses mean different things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.helpers.children import manager_pids, run_command, run_program, wait_until, write_program
from tests.helpers.namespaces import on_two_hosts

ROOT = {"PYTHONPATH": str(Path(__file__).parents[2])}
OWN_USERS = ["unshare", "--user", "--map-root-user"]
OWN_PIDS = [*OWN_USERS, "--pid", "--fork", "--kill-child"]

PRELUDE = """
    import pickle, subprocess, sys
    from multiprocessing.reduction import ForkingPickler
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from tests.helpers.children import kill_manager_of, manager_pids, wait_until

    class Child:
        def __init__(self, namespace, *arguments):
            self.process = subprocess.Popen(
                [*namespace, sys.executable, __file__, "child", *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
        def ask(self, words=""):
            self.process.stdin.write(words + "\\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().strip()
        def end(self):
            self.process.communicate(timeout=30)

    def dump(tensor):
        return bytes(ForkingPickler.dumps(tensor)).hex()
    def load(text):
        return pickle.loads(bytes.fromhex(text))
"""

PID_PROGRAM = (
    PRELUDE
    + """
    if sys.argv[1] == "child":
        held = load(input())
        print(held[0].item(), flush=True)
        input()
        st.zeros(3)  # starts the next manager, in this namespace
        print(st.stats()["processes"], flush=True)
        input()
        print(held.numpy().sum(), flush=True)
        sys.stdin.readline()
        sys.exit()

    mp.set_sharing_strategy(sys.argv[2])
    mine, lent = st.full(1024, 7), st.full(1024, 5)
    session = st.stats()["session"]
    child = Child(sys.argv[3:])
    assert child.ask(dump(lent)) == "5"
    del lent  # which only the child holds from now on
    kill_manager_of(session)
    assert child.ask() == "2"
    assert (mine.numpy() == 7).all()
    new = [st.full(1024, 99) for _ in range(3)]
    assert (mine.numpy() == 7).all()
    assert st.stats()["processes"] == 2
    assert child.ask() == str(5 * 1024)
    child.end()
    again = [st.full(1024, 98) for _ in range(3)]  # by way of a third manager
    assert (mine.numpy() == 7).all()
    wait_until(lambda: st.stats()["processes"] == 1, what="the child's death to be seen")
    print(session)
"""
)

NET_PROGRAM = (
    PRELUDE
    + """
    if sys.argv[1] == "child":
        try:
            held = load(input())
            print(held[0].item(), flush=True)
        except st.SessionError as error:
            print(error, flush=True)
        if sys.argv[2:] == ["ordinary"]:
            input()
            print(held.numpy().sum(), flush=True)
        sys.stdin.readline()
        sys.exit()

    mp.set_sharing_strategy(sys.argv[2])
    mine = st.full(1024, 7)
    session = st.stats()["session"]
    refusal = "the session is in another network namespace"
    outer = Child(["unshare", "--net"])
    assert refusal in outer.ask(dump(mine))
    inner = Child([], "ordinary")
    assert inner.ask(dump(mine)) == "7"
    del mine
    outer.end()
    new = [st.full(1024, 99) for _ in range(3)]
    assert inner.ask() == str(7 * 1024)
    wait_until(lambda: len(manager_pids(session)) == 1, what="the other manager to end")
    kill_manager_of(session)
    outer = Child(["unshare", "--net"])
    assert refusal in outer.ask(dump(new[0]))
    outer.end()
    assert st.stats()["processes"] == 2
    inner.end()
    print(session)
"""
)


@pytest.fixture(autouse=True)
def allowed() -> None:
    done = subprocess.run([*OWN_PIDS, "--net", "true"], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no namespaces of one's own here: {done.stderr.strip()}")


@pytest.mark.thorough
@pytest.mark.parametrize("proc", [[], ["--mount-proc"]], ids=["their /proc", "own /proc"])
def test_manager_in_other_pid_namespace_keeps_live_processes(strategy, proc, tmp_path) -> None:
    """Regression: it did not find the pids that its predecessor had recorded, and freed what was in use.

    The parent runs outside, the child in its own PID namespace, as in containers of one pod. The manager,
    which the parent started, is killed, and the child starts the next.
    """
    program = write_program(tmp_path, PID_PROGRAM)
    done = run_program(program, "parent", strategy, *OWN_PIDS, *proc, env=ROOT)
    assert done.returncode == 0, done.stderr
    session = done.stdout.strip()
    wait_until(lambda: not manager_pids(session), what="the manager to end")


@pytest.mark.thorough
def test_session_has_one_manager_across_network_namespaces(strategy, tmp_path) -> None:
    """Regression: a child in its own network namespace started a second manager.

    The address of a manager is free in each network namespace. The second manager found the session's memory
    through /proc, took it over, and gave the same slots to other processes: tensors in use were freed.
    """
    program = write_program(tmp_path, NET_PROGRAM)
    done = run_command([*OWN_USERS, sys.executable, str(program), "parent", strategy], env=ROOT)
    assert done.returncode == 0, done.stderr
    session = done.stdout.strip()
    wait_until(lambda: not manager_pids(session), what="the manager to end")


SECOND_HOST = """
    import sys, time
    from pathlib import Path
    import shmtensor as st

    tensor = st.full(1000, 2)
    Path(sys.argv[1], "ready").touch()
    time.sleep(60)
"""
FIRST_HOST = """
    import sys
    from pathlib import Path
    import shmtensor as st
    from tests.helpers.children import wait_until

    wait_until(Path(sys.argv[1], "ready").exists, 30)
    tensor = st.full(1000, 1)
    assert st.stats()["processes"] == st.stats()["blocks"] == 1, st.stats()
"""


def test_two_hosts_use_one_name_for_two_sessions(tmp_path) -> None:
    """A manager that saw the other host's processes would find their session, and refuse to start its own."""
    hosts = ([sys.executable, "-c", dedent(code), str(tmp_path)] for code in (FIRST_HOST, SECOND_HOST))
    done = run_command(on_two_hosts(tmp_path, *hosts), env={**ROOT, "SHMTENSOR_SESSION": "same name"})
    assert done.returncode == 0, done.stderr
