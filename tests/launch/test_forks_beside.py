"""A fork by another thread, at any moment in which a worker's pipes are opened or closed."""

from __future__ import annotations

import os
import threading

from shmtensor.multiprocessing import _parent_only
from shmtensor.multiprocessing._lifeline import Lifeline
from shmtensor.multiprocessing._parent_only import no_fork
from shmtensor.multiprocessing._report import ReportPipe


def is_open(fd) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def holds_in_child(check) -> bool:
    """Fork, and say whether the check is true in the child."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def fork_in_the_middle(work, pause, check) -> bool:
    """Run `work` in a thread, which calls `pause` in its middle; fork just then."""
    middle, forked = threading.Event(), threading.Event()

    def stop_here() -> None:
        middle.set()
        forked.wait(0.3)  # in vain if the fork waits for this thread, as it shall

    pause.append(stop_here)
    thread = threading.Thread(target=work)
    thread.start()
    assert middle.wait(30)
    holds = holds_in_child(check)
    forked.set()
    thread.join()
    return holds


def test_a_number_that_was_just_closed_is_not_closed_in_the_child(monkeypatch) -> None:
    """A worker lost its own report pipe, or its parent's file, that had been given the number meanwhile."""
    pipe = ReportPipe()
    number, pause = pipe.reader, []
    close = os.close

    def close_and_use_again(fd) -> None:
        close(fd)
        if fd == number:
            monkeypatch.undo()
            os.dup2(2, number)
            pause.pop()()

    monkeypatch.setattr(os, "close", close_and_use_again)
    assert fork_in_the_middle(pipe.close, pause, lambda: is_open(number)), "it is the program's by now"
    os.close(number)


def test_a_pipe_that_was_just_opened_is_closed_in_the_child(monkeypatch) -> None:
    """With its writing end there, the worker would outlive its parent for as long as that child lives."""
    opened, lines, pause = [], [], []
    pipe = os.pipe

    def open_and_pause():
        monkeypatch.undo()
        opened.extend(pipe())
        pause.pop()()
        return tuple(opened)

    monkeypatch.setattr(os, "pipe", open_and_pause)
    work = lambda: lines.append(Lifeline())  # noqa: E731
    assert fork_in_the_middle(work, pause, lambda: not is_open(opened[1]))
    lines.pop().cut()


def test_one_that_was_closed_behind_our_back_does_not_keep_the_others_open() -> None:
    """The first EBADF ended it, and nobody would notice the parent's death."""
    pipes = [ReportPipe(), ReportPipe()]
    for closed, other in (pipes, pipes[::-1]):  # in which order they are taken is chance
        number, kept = closed.reader, os.dup(closed.reader)
        os.close(number)
        assert holds_in_child(lambda fd=other.reader: not is_open(fd))
        os.dup2(kept, number)
        os.close(kept)
    for pipe in pipes:
        pipe.close()


def test_a_thread_that_cannot_go_on_before_the_fork_does_not_hold_it_up_for_ever(monkeypatch) -> None:
    """A signal handler in it may log, and the forking thread have the lock of `logging` already."""
    monkeypatch.setattr(_parent_only, "_PATIENCE", 0.05)
    locked, forked = threading.Event(), threading.Event()

    def stay() -> None:
        with no_fork():
            locked.set()
            assert forked.wait(60)

    thread = threading.Thread(target=stay)
    thread.start()
    assert locked.wait(30)
    assert holds_in_child(can_lock), "the thread that has it is not in the child"
    forked.set()
    thread.join()
    assert can_lock()


def can_lock() -> bool:
    """Can another thread have the lock?"""
    found = []

    def lock() -> None:
        if no_fork().acquire(timeout=30):
            no_fork().release()
            found.append("locked")

    thread = threading.Thread(target=lock, daemon=True)
    thread.start()
    thread.join(40)
    return bool(found)


def test_a_fork_by_the_thread_that_has_the_lock() -> None:
    """As in a signal handler."""
    with no_fork():
        pid = os.fork()
    if pid == 0:
        os._exit(0 if can_lock() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert can_lock()
