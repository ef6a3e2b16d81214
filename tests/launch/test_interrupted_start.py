"""A `start` that a signal handler interrupts after the child was started leaves no child and no message."""

from __future__ import annotations

import multiprocessing.process
import os
import signal
import time
from typing import NoReturn

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import wait_until


class Interrupting(set):  # type: ignore[type-arg]
    """Stands for the standard library's set of children: adding one is the last step of a start."""

    def add(self, _: object) -> NoReturn:
        raise KeyboardInterrupt


def create(path: str, _: object) -> None:
    with open(path, "w"):
        time.sleep(30)


def test_child_that_was_started_is_killed(tmp_path, start_method, strategy, monkeypatch) -> None:
    """Regression: the child ran on, without its arguments."""
    before = st.stats()["in_flight"]
    process = mp.get_context(start_method).Process(target=create, args=(str(tmp_path / "ran"), st.ones(10)))
    monkeypatch.setattr(multiprocessing.process, "_children", Interrupting())
    with pytest.raises(KeyboardInterrupt):
        process.start()
    assert process.exitcode == -signal.SIGKILL
    assert st.stats()["in_flight"] == before


def test_worker_that_was_told_to_run_is_killed(tmp_path, monkeypatch) -> None:
    """Regression: the worker ran on, and no Process object knew of it."""
    process = mp.get_context("server").Process(target=create, args=(str(tmp_path / "ran"), st.ones(10)))
    write = os.write

    def interrupted(fd: int, content: bytes) -> int:
        written = write(fd, content)
        if content == b"g":
            wait_until((tmp_path / "ran").exists)
            raise KeyboardInterrupt
        return written

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.start()
    assert process.exitcode == -signal.SIGKILL


class Slow:
    """The child loads what follows 100 seconds later."""

    def __reduce__(self):
        return time.sleep, (100,)


def test_join_releases_arguments_that_were_not_loaded() -> None:
    process = mp.get_context("spawn").Process(target=print, args=(Slow(), st.ones(10)))
    process.start()
    assert st.stats()["in_flight"] == 1
    process.kill()
    process.join()
    assert st.stats()["in_flight"] == 0
