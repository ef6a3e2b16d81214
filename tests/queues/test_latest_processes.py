"""The newest value between processes: late readers, deaths, stops, forks, names."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end, wait_until
from tests.helpers.live_resources import assert_no_leaks, live_resources
from tests.queues import latest_storm

SECONDS = 60


def follow(latest: Any, last: int, results: Any) -> None:
    """Wait for each newer value until that one."""
    numbers = []
    while not numbers or numbers[-1] != last:
        value = latest.get(after=latest.received, timeout=SECONDS)
        assert (np.asarray(value["weights"]) == value["number"]).all()
        numbers.append(value["number"])
    results.put(numbers)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", "server"])
def test_readers_get_the_newest_and_miss_some(method: str) -> None:
    context: Any = mp.get_context(method)
    latest, results = st.Latest({"number": 0, "weights": st.zeros(1000)}), st.Queue()
    readers = [context.Process(target=follow, args=(latest, 200, results)) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 201):
        with latest.next() as value:
            value["number"] = number
            value["weights"].numpy()[:] = number
    late = context.Process(target=follow, args=(latest, 200, results))
    late.start()
    for _ in range(3):
        numbers = results.get(timeout=SECONDS)
        assert numbers == sorted(set(numbers))
    for process in (*readers, late):
        end(process)


def set_two(latest: Any) -> None:
    latest.set(st.full(1000, 1))
    latest.set(st.full(1000, 2))


def test_a_value_outlives_its_writer() -> None:
    latest: Any = st.Latest()
    before = live_resources()
    writer = mp.get_context("fork").Process(target=set_two, args=(latest,))
    writer.start()
    end(writer)
    assert latest.get().tolist() == [2] * 1000
    latest.set(None)
    latest.get()
    wait_until(lambda: live_resources() == before, SECONDS, lambda: f"{live_resources()}, not {before}")


def set_from(latest: Any, name: str) -> None:
    attached: Any = st.attach(name, timeout=SECONDS)
    attached.set([*attached.get(), "attached"])
    latest.set([*latest.get(), "argument"])


def test_is_attached_by_name() -> None:
    latest: Any = st.Latest([])
    st.publish("newest of test", latest)
    process = mp.get_context("spawn").Process(target=set_from, args=(latest, "newest of test"))
    process.start()
    end(process)
    st.unpublish("newest of test")
    assert latest.get() == ["attached", "argument"]


def hold_memory(latest: Any, ready: Any) -> None:
    with latest.next() as value:
        value[:] = 9
        ready.set()
        signal.pause()


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_writer_that_does_not_go_on(sent: signal.Signals) -> None:
    """Readers have the value before, and other writers set theirs."""
    with assert_no_leaks():
        latest, ready = st.Latest(st.zeros(1000)), st.Event()
        writer = mp.get_context("fork").Process(target=hold_memory, args=(latest, ready))
        writer.start()
        assert ready.wait(SECONDS)
        os.kill(writer.pid, sent)
        assert latest.get().tolist() == [0] * 1000
        latest.set(st.ones(1000))
        assert latest.get(after=1, timeout=SECONDS).tolist() == [1] * 1000
        writer.kill()
        writer.join()
        del latest, ready, writer


def read_and_stop(latest: Any, ready: Any) -> None:
    held = latest.get()
    ready.set()
    signal.pause()
    del held


def test_stopped_reader_keeps_its_value_and_nothing_else() -> None:
    latest, ready = st.Latest(st.zeros(1000)), st.Event()
    reader = mp.get_context("fork").Process(target=read_and_stop, args=(latest, ready))
    reader.start()
    assert ready.wait(SECONDS)
    os.kill(reader.pid, signal.SIGSTOP)
    blocks = live_resources()[0]
    for number in range(100):
        latest.set(st.full(1000, number))
    latest.get()
    assert live_resources()[0] <= blocks + 1
    reader.kill()
    reader.join()


def test_child_has_the_value_that_its_parent_got() -> None:
    latest = st.Latest(st.full(1000, 5))
    latest.get()
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.read(read, 1)
            newest = latest.get()
            os._exit(0 if latest.received == 2 and newest.tolist() == [6] * 1000 else 1)
        finally:
            os._exit(2)
    latest.set(st.full(1000, 6))
    os.write(write, b"x")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(read)
    os.close(write)


def test_kills_tear_nothing() -> None:
    seen = latest_storm.run(20)
    assert seen.values > 1
