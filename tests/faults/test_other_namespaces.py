"""Processes of one session in several namespaces, where pids and addresses mean different things."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from tests.helpers.children import (
    await_end_of_session,
    importing_tests,
    output,
    program_beside,
    run_beside,
    run_command,
)
from tests.helpers.namespaces import on_two_hosts

OWN_USERS = ["unshare", "--user", "--map-root-user"]
OWN_PIDS = [*OWN_USERS, "--pid", "--fork", "--kill-child"]


@pytest.fixture(autouse=True)
def allowed() -> None:
    done = subprocess.run([*OWN_PIDS, "--net", "true"], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no namespaces of one's own here: {done.stderr.strip()}")


@pytest.mark.thorough
@pytest.mark.parametrize("proc", [[], ["--mount-proc"]], ids=["their /proc", "own /proc"])
def test_manager_in_other_pid_namespace_keeps_live_processes(strategy, proc) -> None:
    """Regression: it did not find the pids that its predecessor had recorded, and freed what was in use.

    The parent runs outside, the child in its own PID namespace, as in containers of one pod. The manager,
    which the parent started, is killed, and the child starts the next.
    """
    arguments = ["pid_namespaces", strategy, *OWN_PIDS, *proc]
    await_end_of_session(run_beside(__file__, "other_namespaces", *arguments))


@pytest.mark.thorough
def test_session_has_one_manager_across_network_namespaces(strategy) -> None:
    """Regression: a child in its own network namespace started a second manager.

    The address of a manager is free in each network namespace. The second manager found the session's memory
    through /proc, took it over, and gave the same slots to other processes: tensors in use were freed.
    """
    program = str(program_beside(__file__, "other_namespaces"))
    command = [*OWN_USERS, sys.executable, program, "net_namespaces", strategy]
    await_end_of_session(run_command(command, env=importing_tests()))


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
    env = {**importing_tests(), "SHMTENSOR_SESSION": "same name"}
    output(run_command(on_two_hosts(tmp_path, *hosts), env=env))
