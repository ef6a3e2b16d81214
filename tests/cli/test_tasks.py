"""The commands show which workers of a pool run a task, and how long each has run it."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.cli.running import run
from tests.helpers.children import wait_until


def hold(words: st.Tensor) -> int:
    """Report this process; return after the test has set the second word."""
    words[0] = os.getpid()
    while not words[1]:
        time.sleep(0.01)
    return os.getpid()


@pytest.fixture
def busy(capsys):
    """Return a function that returns what `top` reports of each process of this session."""

    def seen() -> dict[int, int | None]:
        code, text = run(capsys, "top", "--once", "--json", str(os.getpid()))
        assert code == 0
        (one,) = (one for one in json.loads(text)["sessions"] if one["session"] == st.stats()["session"])
        return {process["pid"]: process["busy"] for process in one["processes"]}

    return seen


def test_worker_whose_task_hangs_is_shown_with_its_age(start_method: str, busy, capsys, session) -> None:
    words = st.zeros(2, "i8")
    begin = time.monotonic()
    with mp.get_context(start_method).Pool(2) as pool:
        result = pool.apply_async(hold, (words,))
        pids = {worker.pid for worker in pool._pool}
        wait_until(lambda: words[0] != 0 and pids <= busy().keys())
        pid = int(words[0])
        (idle,) = pids - {pid}
        time.sleep(1.0)
        seen = busy()
        assert 1 <= seen.pop(pid) <= time.monotonic() - begin
        assert seen.keys() >= {os.getpid(), idle}
        assert set(seen.values()) == {None}
        for command in (("ls", session), ("top", "--once", str(pid))):
            (line,) = re.findall(rf"^.*\b{pid} .*$", run(capsys, *command)[1], re.MULTILINE)
            assert re.search(r"  [1-9]\d* s  .*\S$", line), line
        words[1] = 1
        assert result.get(60) == pid
        assert set(busy().values()) == {None}
        with pytest.raises(ZeroDivisionError):
            pool.apply(divmod, (1, 0))
        assert set(busy().values()) == {None}


def test_replacement_of_a_killed_worker_runs_no_task(busy) -> None:
    words = st.zeros(2, "i8")
    with mp.Pool(1) as pool:
        result = pool.apply_async(hold, (words,))
        wait_until(lambda: words[0] != 0)
        pid = int(words[0])
        assert busy()[pid] is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(mp.WorkerLost):
            result.get(60)
        wait_until(lambda: any(worker.pid in busy() for worker in pool._pool if worker.pid != pid))
        wait_until(lambda: pid not in busy())
        assert set(busy().values()) == {None}
