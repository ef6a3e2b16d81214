"""Forks by another thread while the pipes of a worker are opened or closed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib import import_module
from importlib.util import spec_from_loader

import pytest

import shmtensor
from shmtensor import _fork
from shmtensor._fork import RenewedLock, no_fork
from shmtensor.multiprocessing._lifetime.parent_death import ParentDeathPipe
from shmtensor.multiprocessing._spawn.report import ReportPipe
from tests.helpers.children import fork, output, run_python


def is_open(fd) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def holds_in_child(check) -> bool:
    """Fork, and return the result of the check in the child."""
    return os.waitpid(fork(lambda: os._exit(not check())), 0)[1] == 0


def fork_in_the_middle(work, pause, check) -> bool:
    """Run `work` in a thread; fork when it calls `pause`."""
    middle, forked = threading.Event(), threading.Event()

    def stop_here() -> None:
        middle.set()
        forked.wait(0.3)  # times out if the fork waits for this thread, as it should

    pause.append(stop_here)
    thread = threading.Thread(target=work)
    thread.start()
    assert middle.wait(30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_fork, "_FORK_TIMEOUT", 60)  # it waits for the thread, however slow the machine is
        holds = holds_in_child(check)
    forked.set()
    thread.join()
    return holds


class Slow:
    """Finds and loads a module, and pauses at one of the two; loading takes a while."""

    def __init__(self, place, seconds=0.1) -> None:
        self.place, self.seconds, self.pause = place, seconds, []

    def reach(self, place) -> None:
        if place == self.place and self.pause:
            self.pause.pop()()

    def find_spec(self, name, _path, _target=None):
        if name != "shmtensor._slow":
            return None
        self.reach("found")
        return spec_from_loader(name, self)

    def create_module(self, _spec):
        return None

    def exec_module(self, module) -> None:
        self.reach("loaded")
        time.sleep(self.seconds)
        module.loaded = True


@pytest.mark.parametrize("place", ["found", "loaded"])
def test_child_can_import_what_another_thread_was_importing(monkeypatch, place) -> None:
    """Regression: it waited forever for the lock of the module, which that thread holds."""
    slow = Slow(place)
    monkeypatch.setattr(sys, "meta_path", [slow, *sys.meta_path])

    def load() -> bool:
        signal.alarm(20)
        return import_module("shmtensor._slow").loaded

    try:
        assert fork_in_the_middle(lambda: import_module("shmtensor._slow"), slow.pause, load)
    finally:
        sys.modules.pop("shmtensor._slow", None)
        vars(shmtensor).pop("_slow", None)


@pytest.mark.thorough
def test_fork_waits_for_an_import_that_takes_longer_than_a_second(monkeypatch) -> None:
    """Regression: the child hung. With 5 % of a processor, importing NumPy takes more than a second."""
    slow, begun = Slow("loaded", 1.2), threading.Event()
    slow.pause.append(begun.set)
    monkeypatch.setattr(sys, "meta_path", [slow, *sys.meta_path])
    thread = threading.Thread(target=import_module, args=("shmtensor._slow",))

    def load() -> bool:
        signal.alarm(10)
        return import_module("shmtensor._slow").loaded

    try:
        thread.start()
        assert begun.wait(30)
        assert holds_in_child(load)
    finally:
        thread.join()
        sys.modules.pop("shmtensor._slow", None)
        vars(shmtensor).pop("_slow", None)


def test_fork_ends_although_an_import_waits_for_its_thread(tmp_path) -> None:
    """Regression: the module made a logger, and the forking thread had the lock of `logging`."""
    (tmp_path / "_slow.py").write_text(
        "import builtins, logging, time\nbuiltins.begun.set()\ntime.sleep(0.1)\nlogging.getLogger('slow')\n"
    )
    code = """
        import builtins, os, sys, threading
        from importlib import import_module
        import shmtensor
        import shmtensor._fork
        import logging  # whose function before a fork runs first
        shmtensor._fork._FORK_TIMEOUT = 1
        shmtensor.__path__.append(sys.argv[1])
        builtins.begun = threading.Event()
        threading.Thread(target=import_module, args=("shmtensor._slow",)).start()
        begun.wait()
        os.waitpid(os.fork() or os._exit(0), 0)
        print("forked")
    """
    assert output(run_python(code, arguments=(str(tmp_path),), timeout=60)) == "forked\n"


def test_closed_descriptor_is_not_closed_again_in_the_child(monkeypatch) -> None:
    """Regression: the child closed a report pipe or file that had received the same number."""
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
    assert fork_in_the_middle(pipe.close, pause, lambda: is_open(number)), "the program has reused the number"
    os.close(number)


def test_new_pipe_is_closed_in_the_child(monkeypatch) -> None:
    """With the writing end open in the child, the worker would outlive its parent."""
    opened, pipes, pause = [], [], []
    pipe = os.pipe

    def open_and_pause():
        monkeypatch.undo()
        opened.extend(pipe())
        pause.pop()()
        return tuple(opened)

    monkeypatch.setattr(os, "pipe", open_and_pause)
    work = lambda: pipes.append(ParentDeathPipe())  # noqa: E731
    assert fork_in_the_middle(work, pause, lambda: not is_open(opened[1]))
    pipes.pop().close()


def test_externally_closed_fd_does_not_block_cleanup() -> None:
    """Regression: the first EBADF stopped the clean-up; other workers did not notice the parent's death."""
    pipes = [ReportPipe(), ReportPipe()]
    for closed, other in (pipes, pipes[::-1]):  # the order of clean-up is random
        number, kept = closed.reader, os.dup(closed.reader)
        os.close(number)
        assert holds_in_child(lambda fd=other.reader: not is_open(fd))
        os.dup2(kept, number)
        os.close(kept)
    for pipe in pipes:
        pipe.close()


def test_fork_waits_for_the_lock_with_a_timeout(monkeypatch) -> None:
    """A signal handler under the lock may log while the forking thread holds the lock of `logging`."""
    monkeypatch.setattr(_fork, "_FORK_TIMEOUT", 0.05)
    locked, forked = threading.Event(), threading.Event()

    def stay() -> None:
        with no_fork():
            locked.set()
            assert forked.wait(60)

    thread = threading.Thread(target=stay)
    thread.start()
    assert locked.wait(30)
    assert holds_in_child(can_lock), "the thread that holds it does not exist in the child"
    forked.set()
    thread.join()
    assert can_lock()


def can_lock() -> bool:
    """Return True if another thread can acquire the lock."""
    found = []

    def lock() -> None:
        if no_fork().acquire(timeout=30):
            no_fork().release()
            found.append("locked")

    thread = threading.Thread(target=lock, daemon=True)
    thread.start()
    thread.join(40)
    return bool(found)


def test_fork_by_the_thread_that_holds_the_lock() -> None:
    """A signal handler may fork in that thread."""
    with no_fork():
        pid = os.fork()
    if pid == 0:
        os._exit(0 if can_lock() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert can_lock()


def test_lock_of_a_module_is_free_in_the_child() -> None:
    lock = RenewedLock(threading.Lock)
    with lock():
        assert holds_in_child(lambda: lock().acquire(blocking=False))
        assert lock().locked(), "the parent holds it"


def test_child_forked_under_a_lock_leaves_the_block() -> None:
    lock = RenewedLock(threading.Lock)
    with lock():
        pid = os.fork()
    if pid == 0:
        os._exit(int(lock().locked()))
    assert os.waitpid(pid, 0)[1] == 0
