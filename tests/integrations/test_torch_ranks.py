"""Ranks that torchrun starts: one session on each node for each attempt, and none left after a job."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent, indent

import pytest

from tests.helpers.children import run_command
from tests.helpers.namespaces import ADDRESSES, on_two_hosts
from tests.helpers.ranks import (
    HOLDING,
    OF_TORCHRUN,
    SENDING,
    assert_nothing_is_left,
    assert_sent_on_node,
    reports,
    run_ranks,
    write_ranks,
)

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", "2"]


@pytest.mark.thorough
def test_ranks_of_two_jobs_send_among_themselves(tmp_path) -> None:
    def job(name):
        folder = tmp_path / name
        folder.mkdir()
        rank = write_ranks(folder, OF_TORCHRUN, SENDING)
        return run_ranks([*TORCHRUN, "--standalone", *rank], folder, 2)

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(job, ("one", "two"))
    assert one[0]["session"] != two[0]["session"]
    for found in (one, two):
        assert_sent_on_node(found, [0, 1])


@pytest.mark.thorough
def test_each_of_two_hosts_has_a_session(tmp_path) -> None:
    """The sessions of both have the same name."""
    rank = write_ranks(tmp_path, OF_TORCHRUN, SENDING)
    nodes = [*TORCHRUN, "--nnodes", "2", "--master-addr", ADDRESSES[0], "--master-port", "29500"]
    first, second = ([*nodes, "--node-rank", str(number), *rank] for number in range(2))
    found = run_ranks(on_two_hosts(tmp_path, first, second), tmp_path, 4)
    assert [found[rank]["host"] for rank in range(4)] == ["alpha", "alpha", "beta", "beta"]
    for ranks in ([0, 1], [2, 3]):
        assert_sent_on_node(found, ranks)


@pytest.mark.thorough
def test_restarted_ranks_find_nothing_of_those_before(tmp_path) -> None:
    """torchrun ends the ranks beside a killed one, and starts all again."""
    first = indent(dedent(HOLDING) + "signal.pause()\n", "    ")
    rank = write_ranks(
        tmp_path, OF_TORCHRUN, f'if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":\n{first}', SENDING
    )
    done = run_command([*TORCHRUN, "--standalone", "--max-restarts", "1", *rank], timeout=100)
    assert done.returncode == 0, done.stderr
    assert_nothing_is_left(tmp_path)
    found = reports(tmp_path)
    assert found["holding 0"]["session"] == found["holding 1"]["session"] != found["0"]["session"]
    assert_sent_on_node({number: found[str(number)] for number in range(2)}, [0, 1])
