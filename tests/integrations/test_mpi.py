"""Ranks that a real launcher of MPI starts: one session on each node, and none left after a job."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers.children import EXAMPLES, run_command
from tests.helpers.namespaces import ADDRESSES, in_container, on_two_hosts
from tests.helpers.ranks import (
    HOLDING,
    OF_MPI,
    SENDING,
    WITHOUT_MPI,
    assert_nothing_is_left,
    assert_sent_on_node,
    remove_memory_of_mpi,
    reports,
    run_ranks,
    write_ranks,
)
from tests.integrations.mpi_launchers import KINDS, REMOTE_SHELL, Launcher, find


@pytest.fixture(params=KINDS)
def launcher(request, tmp_path) -> Launcher:
    return find(request.param, tmp_path)


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_ranks_of_a_node_share_an_object_and_send_tensors(launcher, strategy, tmp_path) -> None:
    rank = write_ranks(tmp_path, OF_MPI, SENDING)
    env = {**launcher.env, "SHMTENSOR_SHARING_STRATEGY": strategy}
    found = run_ranks(launcher.command(3, rank), tmp_path, 3, **env)
    assert_sent_on_node(found, [0, 1, 2])


def two_jobs(launcher: Launcher, folder: Path, *inside: str) -> None:
    """Run two jobs that build an object of the same name at the same time; each must build its own."""

    def job(name):
        own = folder / name
        own.mkdir()
        rank = write_ranks(own, OF_MPI, SENDING)
        env = {**launcher.env, "TMPDIR": str(own)}
        return run_ranks([*inside, *launcher.command(2, rank)], own, 2, **env)

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(job, ("one", "two"))
    assert one[0]["session"] != two[0]["session"]
    for found in (one, two):
        assert_sent_on_node(found, [0, 1])


def test_two_jobs_do_not_meet(launcher, tmp_path) -> None:
    two_jobs(launcher, tmp_path)


def test_jobs_of_two_containers_do_not_meet(launcher, tmp_path) -> None:
    """Containers with the network and the name of their host: both launchers have the same process id."""
    two_jobs(launcher, tmp_path, *in_container())


def test_each_of_two_hosts_has_a_session(launcher, tmp_path) -> None:
    rank = write_ranks(tmp_path, OF_MPI, SENDING)
    options = launcher.on_hosts(ADDRESSES, 2, tmp_path)
    command = on_two_hosts(tmp_path, launcher.command(4, rank, *options), REMOTE_SHELL)
    found = run_ranks(command, tmp_path, 4, **launcher.env)
    assert [found[rank]["host"] for rank in range(4)] == ["alpha", "alpha", "beta", "beta"]
    for ranks in ([0, 1], [2, 3]):
        assert_sent_on_node(found, ranks)


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_killed_rank_ends_the_job_and_leaves_nothing(launcher, strategy, tmp_path) -> None:
    rank = write_ranks(tmp_path, OF_MPI, HOLDING, "signal.pause()")
    env = {**launcher.env, "SHMTENSOR_SHARING_STRATEGY": strategy}
    done = run_command(launcher.command(3, rank), env=env)
    remove_memory_of_mpi(tmp_path)
    assert done.returncode != 0
    assert len(reports(tmp_path)) == 3, done.stderr
    assert_nothing_is_left(tmp_path)


# What is run by the rank that survives.
ALONE = """
    import time

    while st.stats()["processes"] > 1:
        time.sleep(0.05)
    received = [inbox.get_nowait() for _ in range(2)]
    assert sorted(int(one[9][0]) for one in received) == [0, 1], "messages outlive their sender"
    for name in ("table", "inbox", "holding 0", "holding 1"):
        assert st.unpublish(name)
    del kept, received, inbox
    report("alone", blocks=st.stats()["blocks"])
"""


def test_rank_killed_behind_a_shell_leaves_nothing_to_the_others(launcher, tmp_path) -> None:
    """The launcher sees that the shell succeeds, so the other rank runs on."""
    rank = write_ranks(tmp_path, WITHOUT_MPI, HOLDING, ALONE)
    done = run_command(launcher.command(2, ["sh", "-c", '"$@" || true', "sh", *rank]), env=launcher.env)
    remove_memory_of_mpi(tmp_path)
    assert done.returncode == 0, done.stderr
    assert reports(tmp_path)["alone"]["blocks"] == 0
    assert_nothing_is_left(tmp_path)


def test_example_has_one_table_for_all_ranks_of_a_node(launcher) -> None:
    rank = [sys.executable, str(EXAMPLES / "node_ranks.py")]
    done = run_command(launcher.command(3, rank), env=launcher.env)
    expected = r"3 ranks on 1 nodes, .* MiB on each, built by ranks \[[012]\]; the most frequent value: 81\n"
    assert re.fullmatch(expected, done.stdout), done
