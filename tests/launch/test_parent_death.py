"""Workers, and what they started, end if and only if the parent ends, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import shmtensor.multiprocessing as mp
from tests.helpers.children import clean_environment, is_running, program_beside, wait_until, write_program

PARENT = program_beside(__file__, "parent_death")
EXPECTED = {"process": 4, "fork": 6, "program": 4, "spawn": 6, "exec": 2, "busy": 2, "nothing": 2}
EXPECTED |= {"pool": 2, "pool in a pool": 6, "executor": 2, "daemon": 2}  # their workers have tasks


class Parent:
    """A program that starts workers, and the lines that they print."""

    def __init__(self, folder, method, kind, thread="main") -> None:
        self.path = folder / "pids"
        self.path.touch()
        self.process = subprocess.Popen(
            [sys.executable, str(PARENT), str(self.path), method, kind, thread],
            stdin=subprocess.PIPE,
            env=clean_environment(),
            text=True,
            start_new_session=True,
        )
        self.expected = EXPECTED[kind]

    def pids(self) -> list[int]:
        return [int(line) for line in self.path.read_text().split()]

    def wait_until_all_run(self) -> list[int]:
        wait_until(lambda: len(self.pids()) == self.expected, 60, "the workers to run")
        wait_until(lambda: self.bystander("later") is not None, 60, "the second bystander")
        return self.pids()

    def bystander(self, name) -> int | None:
        path = self.path.with_suffix(f".{name}")
        return int(path.read_text()) if path.exists() and path.read_text() else None

    def die(self, how) -> None:
        if how == "os._exit":
            self.process.stdin.write("os._exit\n")
            self.process.stdin.flush()
        else:
            self.process.send_signal(how)
        self.process.wait(30)

    def clean_up(self) -> None:
        for pid in [*self.pids(), self.bystander("bystander"), self.bystander("later")]:
            if pid is not None and is_running(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait(30)
        self.process.stdin.close()


@pytest.fixture
def parent(request, tmp_path):
    started = []

    def start(*how):
        started.append(Parent(tmp_path, *how))
        return started[-1]

    yield start
    for one in started:
        one.clean_up()


@pytest.mark.parametrize("kind", list(EXPECTED))
def test_workers_end_when_the_parent_is_killed(start_method, kind, parent) -> None:
    """Also with forked children that have inherited the parent's descriptors, and ignored signals."""
    family = parent(start_method, kind)
    pids = family.wait_until_all_run()
    family.die(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)), what="the workers' end")
    assert is_running(family.bystander("bystander"))
    assert is_running(family.bystander("later"))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGSEGV, "os._exit"], ids=str)
def test_workers_end_with_every_kind_of_parent_death(start_method, how, parent) -> None:
    family = parent(start_method, "process")
    pids = family.wait_until_all_run()
    family.die(how)
    wait_until(lambda: not any(map(is_running, pids)), what="the workers' end")


def test_end_of_the_starting_thread_kills_no_process(start_method, parent) -> None:
    family = parent(start_method, "process", "thread")
    pids = family.wait_until_all_run()
    time.sleep(0.2)
    assert all(map(is_running, pids))
    family.die(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)), what="the workers' end")


STARTING = """
    import os, sys, time
    import shmtensor.multiprocessing as mp

    def sleep_on(rank):
        time.sleep(100)

    def work(rank, method):
        mp.start_processes(sleep_on, nprocs=2, start_method=method)

    if __name__ == "__main__":
        os.write(1, b"starting\\n")
        mp.start_processes(work, (sys.argv[1],), nprocs=3, start_method=sys.argv[1])
"""


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
def test_parent_killed_while_it_starts_workers(start_method, delay, tmp_path) -> None:
    program = write_program(tmp_path, STARTING)
    process = subprocess.Popen(
        [sys.executable, str(program), start_method],
        stdout=subprocess.PIPE,
        env=clean_environment(),
        start_new_session=True,
    )
    assert process.stdout.readline() == b"starting\n"
    time.sleep(delay)
    process.kill()
    process.wait(30)
    process.stdout.close()
    # Their pids are unknown: they are found by their group, including servers of the standard library.
    wait_until(lambda: not group(process.pid), what="the end of all")


def group(leader) -> list[int]:
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == leader and is_running(pid):
                found.append(pid)
    return found


def wait_for(rank, ready, go) -> str:
    ready.put(rank)
    assert go.wait(60)
    return "lived on"


def test_workers_outlive_the_starting_thread(start_method) -> None:
    """In torch, they would receive SIGINT and count as a success."""
    context = mp.get_context(start_method)
    ready, go = context.SimpleQueue(), context.Event()
    started = []

    def start() -> None:
        started.append(
            mp.start_processes(wait_for, (ready, go), nprocs=2, join=False, start_method=start_method)
        )

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert {ready.get(), ready.get()} == {0, 1}
    time.sleep(0.2)
    go.set()
    assert started[0].results() == ["lived on", "lived on"]


def test_programs_of_a_worker_without_free_descriptors_end(tmp_path) -> None:
    """Regression: the worker could not list its descendants, which outlived it."""
    program = """
    import os, resource, subprocess, sys, time
    import shmtensor.multiprocessing as mp

    def work(rank):
        child = subprocess.Popen(["sleep", "60"])
        limit = len(os.listdir("/proc/self/fd")) + 10
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        files = []
        try:
            while True:
                files.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            print(child.pid, flush=True)
        time.sleep(60)

    mp.spawn(work, start_method="fork")
    """
    command = [sys.executable, str(write_program(tmp_path, program))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment()) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    try:
        wait_until(lambda: not is_running(child), what="the end of the program")
    finally:
        if is_running(child):
            os.kill(child, signal.SIGKILL)


ORPHAN = """
    import os
    import signal
    import sys
    import time

    import shmtensor as st
    import shmtensor.multiprocessing as mp

    def outlive(parent):
        is_member = st._core.stats() is not None
        os.kill(parent, signal.SIGKILL)
        mp.parent_process().join()
        os.write(1, f"{is_member} {st.attach('numbers').tolist()}\\n".encode())

    if __name__ == "__main__":
        st.publish("numbers", st.ones(2))
        mp.get_context(sys.argv[1]).Process(target=outlive, args=(os.getpid(),)).start()
        time.sleep(100)
"""


def test_child_that_outlives_its_parent_is_in_the_session_from_its_start(start_method, tmp_path) -> None:
    """Regression: the session ended with the parent before the child first used it."""
    command = [sys.executable, str(write_program(tmp_path, ORPHAN)), start_method]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment()) as parent:
        assert parent.stdout is not None
        assert parent.stdout.read() == "True [1.0, 1.0]\n"
