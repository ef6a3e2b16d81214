"""The observer of the torture test reports each kind of planted fault."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.children import clean_environment, importing_tests, program_beside, wait_until
from tests.helpers.peers import Peer
from tests.observer import processes
from tests.observer.files import PART, ArenaFile
from tests.observer.leftovers import ProcessResources, session_leftovers
from tests.observer.rules import judge, judge_empty
from tests.observer.snapshot import Snapshot, opened, take_snapshot


class Subject(Peer):
    """A session with one idle process."""

    def __init__(self, folder: Path) -> None:
        self.session, self.report = secrets.token_hex(16), folder / "report.json"
        command = [sys.executable, str(program_beside(__file__, "observed")), str(self.report)]
        super().__init__(command, clean_environment(**importing_tests(), SHMTENSOR_SESSION=self.session))
        assert self.answer() == "ready"

    def order(self, order: str) -> None:
        assert self.ask(order) == "done"

    def snapshot(self) -> Snapshot:
        return take_snapshot(self.session, [self.process.pid], lambda _: self.report)

    def problems(self) -> list[str]:
        return judge(self.snapshot())

    def arena(self) -> tuple[str, ArenaFile]:
        """Return the path of the process's arena, and its content."""
        for number, target in processes.descriptors(self.process.pid).items():
            if target.startswith(f"/memfd:shmtensor-{self.session}-1"):
                with opened(self.session, [self.process.pid]) as (_, ((_, arena),)):
                    return f"/proc/{self.process.pid}/fd/{number}", arena
        raise AssertionError("no arena")

    def write(self, offset: int, word: int) -> None:
        """Write a word of 8 bytes into the arena's file."""
        path, _ = self.arena()
        fd = os.open(path, os.O_RDWR)
        os.pwrite(fd, word.to_bytes(8, "little"), offset)
        os.close(fd)

    def end(self) -> None:
        super().end()
        wait_until(lambda: not session_leftovers(self.session), what="the session to end")


@pytest.fixture
def subject(tmp_path) -> Iterator[Subject]:
    subject = Subject(tmp_path)
    yield subject
    subject.end()


@pytest.mark.thorough
def test_observer_accepts_consistent_session(subject) -> None:
    snapshot = subject.snapshot()
    assert judge(snapshot) == []
    (arena,) = snapshot.arenas.values()
    assert len(arena.blocks) == 3, "two tensors and one in a message"
    assert len(snapshot.session.groups) == 1
    assert arena.session == subject.session


@pytest.mark.thorough
def test_observer_reports_block_left_after_gc(subject) -> None:
    problems = judge_empty(subject.snapshot())
    assert any("tickets are live" in problem for problem in problems)
    assert sum("still exists" in problem for problem in problems) == 3
    assert any("were not released" in problem for problem in problems)
    subject.order("empty")
    assert judge_empty(subject.snapshot()) == []


@pytest.mark.thorough
def test_observer_reports_bit_of_unused_slot(subject) -> None:
    """The bit of a dead process that was not cleared would keep the block allocated."""
    _, arena = subject.arena()
    subject.write(arena.holders_at + 2 * 8, 1 << 9)
    assert any("has bits of slots [9] without a live process" in problem for problem in subject.problems())
    subject.write(arena.holders_at + 2 * 8, 0)
    assert subject.problems() == []


@pytest.mark.thorough
def test_observer_reports_live_block_without_holder(subject) -> None:
    subject.write(PART + 77 * 32 + 8, 1 << 20)
    subject.write(PART + 77 * 32 + 16, 16)
    subject.write(PART + 77 * 32, 1)
    assert any("block 77" in p and "is lost: live without holder" in p for p in subject.problems())
    subject.write(PART + 77 * 32, 1 << 32)
    assert subject.problems() == []


@pytest.mark.thorough
def test_observer_reports_broken_pattern(subject) -> None:
    _, arena = subject.arena()
    subject.write(arena.data_at + arena.blocks[0].offset + 8 * 500, 0)
    assert any("broken pattern" in p and "1 of 1000 words" in p for p in subject.problems())


@pytest.mark.thorough
def test_observer_reports_block_given_to_two_owners(subject) -> None:
    _, arena = subject.arena()
    subject.write(PART + arena.blocks[1].number * 32 + 8, arena.blocks[0].offset)
    assert any("overlap" in problem for problem in subject.problems())


@pytest.mark.thorough
def test_observer_reports_use_without_holder_bit(subject) -> None:
    _, arena = subject.arena()
    subject.write(arena.holders_at, 0)
    assert any("is used by slot 0, which has no holder bit" in problem for problem in subject.problems())
    subject.write(arena.holders_at, 1)


@pytest.mark.thorough
def test_observer_reports_use_of_freed_block(subject) -> None:
    subject.write(PART, 1 << 32)  # free, next generation
    assert any("no live block there" in problem for problem in subject.problems())
    subject.write(PART, 1)


@pytest.mark.thorough
def test_observer_reports_holder_bit_without_use(subject) -> None:
    subject.order("omit one")
    assert any("has a bit of slot 0, which does not use it" in problem for problem in subject.problems())


def check_damage(subject, at: int, words: list[tuple[int, int, str]]) -> None:
    """Write each word at its offset from a position in the arena's file; the observer reports the problem."""
    for offset, word, problem in words:
        path, _ = subject.arena()
        fd = os.open(path, os.O_RDWR)
        before = os.pread(fd, 8, at + offset)
        subject.write(at + offset, word)
        assert any(problem in found for found in subject.problems()), problem
        os.pwrite(fd, before, at + offset)
        os.close(fd)
    assert subject.problems() == []
    subject.order("empty")
    assert judge_empty(subject.snapshot()) == []


@pytest.mark.thorough
def test_observer_reports_queue_that_is_locked_or_damaged(subject) -> None:
    subject.order("queue")
    assert subject.problems() == [], "its messages have no pattern"
    ((queue,),) = [subject.snapshot().queues]
    assert (queue.limit, queue.tail.count, queue.head.count) == (10, 3, 0)
    words = [
        (64, 1, "is locked: tail 0x1, head 0x0"),
        (128, 5, "is locked: tail 0x0, head 0x5"),
        (72, 11, "has 11 messages, and its limit is 10"),
        (136, 4, "has more messages taken than put"),
        (0, 7, "begins with"),
    ]
    check_damage(subject, queue.arena.data_at + queue.block.offset, words)


@pytest.mark.thorough
def test_observer_reports_broadcast_that_is_locked_or_damaged(subject) -> None:
    subject.order("broadcast")
    assert subject.problems() == [], "its messages have no pattern"
    ((broadcast,),) = [subject.snapshot().broadcasts]
    (reader,) = broadcast.readers
    assert (broadcast.limit, broadcast.tail.count, reader.next) == (10, 3, 0)
    reads = 1 << 31
    words = [
        (64, 1, "is locked: 0x1"),
        (320, reads | 500, "has a reader of slot 499, without a live process"),
        (320, reader.slot + 1, "the next one of a reader is None"),
        (328, 4, "the next one of a reader is 4"),
        (0, 7, "begins with"),
    ]
    check_damage(subject, broadcast.arena.data_at + broadcast.block.offset, words)


@pytest.mark.thorough
def test_observer_reports_primitive_that_is_locked_or_damaged(subject) -> None:
    subject.order("primitives")
    assert subject.problems() == [], "they have no pattern"
    lock, semaphore = subject.snapshot().primitives
    check_damage(subject, lock.arena.data_at + lock.block.offset, [(8, 1 | 6 << 32, "is locked by slot 5")])
    subject.order("primitives")
    lock, semaphore = subject.snapshot().primitives
    words = [(64, 6 << 32 | 2, "has units of slots {5: 2}"), (0, 7, "begins with")]
    check_damage(subject, semaphore.arena.data_at + semaphore.block.offset, words)


@pytest.mark.thorough
def test_observer_reports_pipe_whose_ends_and_queues_do_not_fit(subject) -> None:
    subject.order("pipe")
    assert subject.problems() == []
    end, _ = subject.snapshot().pipe_ends
    (queue, *_) = subject.snapshot().queues
    stage = queue.arena.data_at + queue.block.offset + 320 - end.arena.data_at - end.block.offset
    words = [
        (0, 0, "begins with"),
        (16, 0, "is open, and has 1 ends"),
        (20, 0x7000_0000, "was freed before its ends"),
        (stage, 1, "is shut down, and has 2 ends"),
    ]
    check_damage(subject, end.arena.data_at + end.block.offset, words)


@pytest.mark.thorough
def test_observer_reports_cache_that_is_locked_or_miscounted(subject) -> None:
    subject.order("cache")
    assert subject.problems() == [], "two tables of items that are patterns"
    (cache,) = subject.snapshot().caches
    assert len(cache.tables) >= 2  # how many depends on the hashes of the keys
    assert len(cache.found()) == 100
    free = next(place for place in range(64) if cache.tables[0][320 * place + 256] % 2 == 0)
    start = cache.arena.data_at + cache.block.offset
    faults = [
        (64, 6, "is locked: 0x6"),
        (144, 1 << 24, "with the change 0x1000000"),
        (1280, 6, "that slots [5] build"),
        (128, 99, "and counts 99"),
        (88, 5, "and counts 100, 5"),
        (25344 + 320 * free + 256, 1, "has 101 items"),
        (0, 7, "begins with"),
    ]
    check_damage(subject, start, faults)


@pytest.mark.thorough
def test_observer_reports_draining_block(subject) -> None:
    subject.write(PART + 77 * 32, 2)
    assert subject.problems() == ["blocks [77] of arena 1 are still draining"]
    subject.write(PART + 77 * 32, 1 << 32)
    assert subject.problems() == []


@pytest.mark.thorough
def test_observer_reports_ticket_of_future_generation(subject) -> None:
    snapshot = subject.snapshot()
    (group,) = snapshot.session.groups
    snapshot.session.groups = [type(group)(group.sender, 1, group.block, group.generation + 1, 1)]
    assert any("a ticket for generation" in problem for problem in judge(snapshot))
    snapshot.session.groups = [type(group)(group.sender, 99, group.block, group.generation, 1)]
    assert any("of arena 99, which does not exist" in problem for problem in judge(snapshot))


@pytest.mark.thorough
def test_observer_reports_leaked_descriptor(subject) -> None:
    path, _ = subject.arena()
    subject.order(f"dup {path.rsplit('/', 1)[1]}")
    assert any("has 2 descriptors of" in problem for problem in subject.problems())


@pytest.mark.thorough
def test_observer_reports_leaked_mapping(subject) -> None:
    path, _ = subject.arena()
    subject.order(f"map {path.rsplit('/', 1)[1]}")
    assert any("mappings rw-s of 4096 bytes of inode" in problem for problem in subject.problems())


@pytest.mark.thorough
def test_observer_reports_resources_left_by_session(subject) -> None:
    problems = session_leftovers(subject.session)
    assert any("socket is left" in problem for problem in problems)
    assert any("has descriptors of the session open" in problem for problem in problems)
    assert any("mappings of the session" in problem for problem in problems)
    assert any("manager" in problem for problem in problems)


def test_observer_reports_leaked_name() -> None:
    session = secrets.token_hex(16)
    path = Path(f"/dev/shm/shmtensor-{session}-7")
    with path.open("wb"):  # another starting manager does not remove names in use
        problems = session_leftovers(session)
        path.unlink()
    assert f"the name {path} is left" in problems
    assert session_leftovers(session) == []


def test_observer_reports_leaks_of_torture_run_itself() -> None:
    before = ProcessResources.take()
    fd = os.open("/", os.O_RDONLY)
    child = subprocess.Popen(["sleep", "60"])
    problems = ProcessResources.take().more_than(before)
    os.close(fd)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert any("more descriptors" in problem for problem in problems)
    assert any(f"the child {child.pid} is left" in problem for problem in problems)
    assert ProcessResources.take().more_than(before) == []


@pytest.mark.thorough
def test_observer_uses_latest_process_report(subject) -> None:
    """A process reports bytes that are not a block of the session."""
    report = json.loads(subject.report.read_text())
    report["holdings"].append([0x1000, 8])
    subject.report.write_text(json.dumps(report))
    assert any("no live block there" in problem for problem in subject.problems())
