"""process_memory and MemoryMonitor: what they count, and for which processes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import psutil
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import memory
from tests.helpers.children import end
from tests.helpers.queues import take

MIB = 1 << 20


def test_process_memory_matches_smaps_example() -> None:
    mine = memory.process_memory()
    maps = psutil.Process().memory_maps()
    expected = {
        "rss": sum(one.rss for one in maps),
        "pss": sum(one.pss for one in maps),
        "uss": sum(one.private_clean + one.private_dirty for one in maps),
        "shared": sum(one.shared_clean + one.shared_dirty for one in maps),
        "shared_file": sum(one.shared_clean + one.shared_dirty for one in maps if one.path.startswith("/")),
    }
    for name, value in expected.items():
        assert getattr(mine, name) == pytest.approx(value, abs=4 * MIB), name
    assert mine.uss <= mine.pss <= mine.rss == mine.uss + mine.shared


def test_private_memory_is_reported_as_private() -> None:
    before = memory.process_memory()
    block = np.ones(32 * MIB, np.uint8)
    after = memory.process_memory()
    assert after.uss - before.uss > 30 * MIB
    assert after.tensors - before.tensors < MIB
    del block


def touch(tensor, queue, go) -> None:
    tensor.numpy().sum()
    queue.put(os.getpid())
    go.wait(60)


@pytest.mark.thorough
def test_shared_tensors_are_divided_in_pss() -> None:
    context = mp.get_context("spawn")
    queue, go = context.SimpleQueue(), context.Event()
    tensor = st.ones(32 * MIB, "u1")
    children = [context.Process(target=touch, args=(tensor, queue, go)) for _ in range(3)]
    for child in children:
        child.start()
    pids = [take(queue) for _ in children]
    monitor = memory.MemoryMonitor([os.getpid(), *pids])
    found = monitor.measure()
    go.set()
    for child in children:
        end(child)
    queue.close()
    for pid in pids:
        assert 32 * MIB <= found[pid].tensors <= 40 * MIB
        assert 7 * MIB <= found[pid].tensors_pss <= 14 * MIB
        assert found[pid].shared_file >= 32 * MIB
    assert found[os.getpid()].tensors >= 32 * MIB
    assert monitor.total_pss() == sum(one.pss for one in found.values())


def test_monitor_keeps_history_and_prints_a_table() -> None:
    monitor = memory.MemoryMonitor([os.getpid()])
    assert monitor.history() == []
    text = monitor.table()
    assert len(monitor.history()) == 1
    assert text.splitlines()[0].split() == [
        *("time", "PID", "rss", "pss", "uss", "shared", "shared_file", "tensors")
    ]
    assert text.splitlines()[1].split()[1] == str(os.getpid())
    assert "PSS of all" in text.splitlines()[-1]
    monitor.measure()
    (first, _), (second, found) = monitor.history()
    assert first < second
    assert list(found) == [os.getpid()]


def test_monitor_follows_process_tree_and_removes_exited() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in memory.process_tree(os.getpid())
        monitor = memory.MemoryMonitor()
        monitor.add(os.getppid())
        assert {os.getpid(), child.pid, os.getppid()} <= set(monitor.measure())
        named = memory.MemoryMonitor([os.getpid()])
        named.add(child.pid)
        assert set(named.measure()) == {os.getpid(), child.pid}
    finally:
        child.communicate(b"\n", timeout=30)
    assert set(named.measure()) == {os.getpid()}
    with pytest.raises(ProcessLookupError, match=f"no process {child.pid}"):
        memory.process_memory(child.pid)
    with pytest.raises(TypeError, match="pid must be an integer, not <Popen"):
        memory.MemoryMonitor([child]).measure()


@pytest.fixture(scope="module")
def fonts_open(tmp_path_factory) -> None:
    """Let matplotlib open the fonts that it keeps open once it has drawn with them."""
    monitor = memory.MemoryMonitor()
    monitor.measure()
    monitor.plot(tmp_path_factory.mktemp("plot") / "first.png")


@pytest.mark.usefixtures("fonts_open")
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot_writes_file(tmp_path, suffix) -> None:
    monitor = memory.MemoryMonitor()
    with pytest.raises(ValueError, match="no measurements"):
        monitor.plot(tmp_path / "a.png")
    for _ in range(3):
        monitor.measure()
    path = tmp_path / f"plot.{suffix}"
    monitor.plot(path)
    assert path.stat().st_size > 1000
