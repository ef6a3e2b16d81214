"""Queues seen from outside: `shmtensor ls`, `shmtensor top`, `st.stats`."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from typing import Any

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.cli import main
from tests.helpers.children import end, output, run_python, running, wait_until
from tests.helpers.live_resources import assert_no_leaks


def ls() -> list[dict[str, Any]]:
    """Return the queues of this session, as another process prints them."""
    session = st.stats()["session"]
    code = "import sys; from shmtensor.cli import main; sys.exit(main(['ls', '--json', *sys.argv[1:]]))"
    (seen,) = json.loads(output(run_python(code, arguments=(session,))))
    return seen["queues"]


def only_one() -> dict[str, Any]:
    (queue,) = ls()
    return queue


def test_numbers(strategy: str) -> None:
    q = st.Queue(maxsize=7)
    for number in range(5):
        q.put(number if number % 2 else st.full(3, number))
    q.get()
    seen = only_one()
    del seen["arena"], seen["block"], seen["label"]
    waiting = dict.fromkeys(("waits_to_get", "waits_to_put"), False)
    expected = {
        "state": "open",
        "messages": 4,
        "limit": 7,
        "bytes": q.qbytes(),
        "max_bytes": 0,
        "put": 5,
        "processes": 1,
        "rings": 1,
        "readers": None,
    }
    assert seen == expected | waiting
    q.shutdown()
    assert only_one()["state"] == "shut down"


def test_a_cache_is_listed_with_its_items() -> None:
    cache: Any = st.SharedCache(max_bytes=2000, label="images")
    for key in range(7):
        cache.get(key, lambda: None)
    seen = only_one()
    assert {name: seen[name] for name in ("label", "state", "messages", "bytes", "max_bytes", "put")} == {
        "label": "images",
        "state": "cache",
        "messages": 6,
        "bytes": cache.stats()["bytes"],
        "max_bytes": 2000,
        "put": 7,
    }
    assert (st.stats()["queues"], st.stats()["queued"]) == (0, 0)


def test_rings_in_use() -> None:
    q = st.Queue()
    for number in range(1000):
        q.put(number)
    assert only_one()["rings"] > 1
    for _ in range(1000):
        q.get()
    q.put(0)
    q.get()
    seen = only_one()
    assert (seen["messages"], seen["put"], seen["rings"]) == (0, 1001, 1)


def wait_for_message(q: st.Queue[Any]) -> None:
    q.get()


def wait_for_room(q: st.Queue[Any]) -> None:
    q.put(1)


@pytest.mark.thorough
def test_processes_and_waiters() -> None:
    q: st.Queue[Any] = st.Queue(1)
    with running(mp, wait_for_message, q):
        wait_until(lambda: only_one()["waits_to_get"], timeout=60, what="the child to wait")
        assert only_one()["processes"] == 2
        q.put(0)
    assert not only_one()["waits_to_get"]
    q.put(0)
    with running(mp, wait_for_room, q):
        wait_until(lambda: only_one()["waits_to_put"], timeout=60, what="the child to wait")
        q.get()
    seen = only_one()
    assert (seen["waits_to_put"], seen["put"]) == (False, 3)
    wait_until(lambda: only_one()["processes"] == 1, what="the child's bit to be cleared")


def test_queue_that_only_a_message_carries_has_no_process() -> None:
    outer, inner = st.Queue(), st.Queue()
    inner.put(1)
    outer.put(inner)
    del inner
    found = sorted((one["processes"], one["messages"]) for one in ls())
    assert found == [(0, 1), (1, 1)]


def hammer(q: st.Queue[Any], stop: Any) -> None:
    while not stop.is_set():
        for number in range(10):
            q.put(st.full(2, number) if number % 3 == 0 else number)
        for _ in range(10):
            q.get()


@pytest.mark.thorough
def test_plausible_while_processes_put_and_get() -> None:
    q: st.Queue[Any] = st.Queue(40)
    stop = mp.Event()
    workers = [mp.Process(target=hammer, args=(q, stop)) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        put = 0
        for _ in range(10):
            seen = only_one()
            assert seen["state"] == "open"
            assert 0 <= seen["messages"] <= 40
            assert seen["put"] >= put
            put = seen["put"]
    finally:
        stop.set()
        for worker in workers:
            end(worker)
    assert only_one()["messages"] == q.qsize() == 0


def test_observed_queue_is_freed() -> None:
    with assert_no_leaks():
        q = st.Queue()
        q.put(st.ones(3))
        ls()
        st.stats()
        del q
        assert ls() == []


def test_stats_count_queues_and_messages() -> None:
    before = st.stats()
    first, second = st.Queue(), st.Queue()
    for number in range(40):
        first.put(number)
    second.put(st.ones(1))
    after = st.stats()
    assert after["queues"] == before["queues"] + 2
    assert after["queued"] == before["queued"] + 41
    assert (after["descriptors"], after["mappings"]) == (st.stats()["descriptors"], st.stats()["mappings"])


def keep(q: st.Queue[Any], ready: Any, stop: Any) -> None:
    mine = st.Queue()
    mine.put_nowait("x")
    ready.set()
    stop.wait(60)
    q.put(len(ls()))


def test_stats_count_queues_in_arenas_of_others() -> None:
    q: st.Queue[Any] = st.Queue()
    ready, stop = mp.Event(), mp.Event()
    with running(mp, keep, q, ready, stop):
        assert ready.wait(60)
        assert (st.stats()["queues"], st.stats()["queued"]) == (2, 1)
        stop.set()
        assert q.get(timeout=60) == 2


def test_stopped_producer_does_not_stop_the_observer() -> None:
    q: st.Queue[Any] = st.Queue(1)
    stop = mp.Event()
    child = mp.Process(target=hammer, args=(q, stop))
    child.start()
    wait_until(lambda: only_one()["put"] > 0, timeout=60, what="a message")
    os.kill(child.pid, signal.SIGSTOP)
    try:
        assert only_one()["state"] == "open"
        assert st.stats()["queues"] == 1
    finally:
        child.kill()
        child.join(30)


@pytest.mark.parametrize("command", ["ls", "top"])
def test_tables(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    q = st.Queue(maxsize=77, label="tasks")
    q.put(st.ones(1000))
    word = st.stats()["session"] if command == "ls" else str(os.getpid())
    capsys.readouterr()
    assert main([command, word]) == 0
    lines = capsys.readouterr().out.splitlines()
    (head,) = [number for number, line in enumerate(lines) if line.split()[:2] == ["queue", "label"]]
    expected = "queue label state messages limit bytes max bytes put processes readers rings waiting"
    assert " ".join(lines[head].split()) == expected
    assert " ".join(lines[head + 1].split()[1:]) == "tasks open 1 77 7.8 KiB none 1 1 1"
    assert main([command, "--json", word]) == 0
    found = json.loads(capsys.readouterr().out)
    (session,) = found if command == "ls" else found["sessions"]
    queues = session["queues"]
    assert [one["limit"] for one in queues] == [77]


def test_queues_of_a_pool_are_found() -> None:
    with mp.Pool(2) as pool:
        assert pool.map(abs, range(4), chunksize=1) == [0, 1, 2, 3]
        seen = {queue["label"].rpartition(" ")[0]: queue for queue in ls()}
        assert seen.keys() == {"pool tasks", "pool results"}
        assert "test_observed.py:" in seen["pool tasks"]["label"]
        assert (seen["pool tasks"]["put"], seen["pool results"]["put"]) == (4, 4)
        assert seen["pool tasks"]["processes"] == 3  # with two workers
        assert {queue["max_bytes"] for queue in seen.values()} == {0}, "no limit is shown as none"


def test_broadcast_with_its_readers() -> None:
    b = st.Broadcast(9)
    fast, slow = b.reader(), b.reader()
    for number in range(5):
        b.put(number)
        fast.get()
    slow.get()
    seen = only_one()
    del seen["arena"], seen["block"], seen["label"]
    expected = {
        "state": "open",
        "messages": 4,
        "limit": 9,
        "bytes": b.lag_bytes(),
        "max_bytes": 0,
        "put": 5,
        "processes": 1,
        "rings": 0,
        "readers": 2,
    }
    assert seen == expected | dict.fromkeys(("waits_to_get", "waits_to_put"), False)
    slow.close()
    b.shutdown()
    seen = only_one()
    assert (seen["state"], seen["messages"], seen["readers"]) == ("shut down", 0, 1)


def test_newest_value() -> None:
    latest = st.Latest(st.zeros(1000), label="weights")
    latest.set(st.ones(1000))
    seen = only_one()
    assert (seen["messages"], seen["put"], seen["limit"], seen["label"]) == (1, 2, 1, "weights")
    assert seen["bytes"] >= 8000


@pytest.mark.parametrize("make", [st.Queue, st.Latest, partial(st.Broadcast, 1)])
def test_label_is_a_short_string(make) -> None:
    with pytest.raises(TypeError, match=r"^a label must be a string, not int 5$"):
        make(label=5)
    with pytest.raises(ValueError, match="a label has at most 40 bytes in UTF-8, not 41"):
        make(label="x" * 41)
