"""System limits and different clocks: no signal, no hang, an error that names the limit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.cgroups import MemoryCgroup
from tests.helpers.children import output, run_beside

MIB = 1 << 20


@pytest.fixture
def memory_cgroup() -> Iterator[MemoryCgroup]:
    """Create a memory cgroup of 128 MiB."""
    group = MemoryCgroup.make(128 * MIB)
    if group is None:
        pytest.skip("needs the right to make a memory cgroup")
    yield group
    group.remove()


def run(strategy: str, program: str, *arguments: str) -> str:
    """Return what a program prints."""
    env = {"SHMTENSOR_SHARING_STRATEGY": strategy}
    return output(run_beside(__file__, program, *arguments, env=env))


@pytest.mark.thorough
def test_full_memory_cgroup_raises_instead_of_kill(strategy, memory_cgroup) -> None:
    """Beyond its limit the out-of-memory killer would act, in `fallocate` as in a page fault."""
    assert run(strategy, "memory_cgroup", memory_cgroup.folder) == "fine\n"


# The kernel leaves less of a small group: there, steps of 16 MiB sufficed for a kill in every run.
@pytest.mark.thorough
@pytest.mark.parametrize(("limit", "count", "size", "rounds"), [(640, 3, 250, 1), (128, 6, 18, 20)])
def test_processes_that_fill_a_memory_cgroup_together_are_not_killed(
    strategy, memory_cgroup, limit, count, size, rounds
) -> None:
    """Regression: each process found enough memory, all of them allocated it, and the kernel killed one."""
    memory_cgroup.set_limit(limit * MIB)
    arguments = map(str, (memory_cgroup.folder, count, size, rounds))
    assert run(strategy, "memory_cgroup", *arguments) == "{0}\n"


@pytest.mark.thorough
def test_exhausted_mapping_limit_is_named(strategy) -> None:
    """At vm.max_map_count, what needs a mapping raises; it works again when mappings are available."""
    assert run(strategy, "mappings") == "10.0\n"


def can_shift_clocks() -> bool:
    command = ["unshare", "--time", "--fork", "--monotonic", "1000", "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.thorough
@pytest.mark.parametrize("offset", ["100000", "-1000"])
def test_process_in_other_time_namespace_works(strategy, offset, tmp_path) -> None:
    """In a container with a time namespace, ages and start times differ by an offset."""
    if not can_shift_clocks():
        pytest.skip("needs the right to make a time namespace")
    if float(Path("/proc/uptime").read_text().split()[0]) < 1100:
        offset = offset.replace("-1000", "-10")
    assert run(strategy, "time_namespace", str(tmp_path / "line"), offset) == "fine\n"


def test_message_can_be_read_again_after_failed_mapping(strategy) -> None:
    """Regression: the message was consumed before its bytes were mapped; its sender had ended."""
    run(strategy, "failed_mapping")
