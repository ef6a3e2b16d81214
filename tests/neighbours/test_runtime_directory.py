"""Sessions in a directory, SHMTENSOR_RUNTIME_DIR, which containers with networks of their own can share."""

from __future__ import annotations

import ast
import os
import signal
import socket
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.children import (
    clean_environment,
    importing_tests,
    kill_manager_of,
    manager_pid,
    manager_pids,
    output,
    run_command,
    run_python,
    wait_until,
)
from tests.helpers.namespaces import in_container
from tests.helpers.peers import Peer

MEMBER = """
    import sys
    import shmtensor as st
    def error_of(call):
        try:
            return f"returned {call()}"
        except st.ShmTensorError as error:
            return str(error)
    for line in sys.stdin:
        print(repr(eval(line)), flush=True)
"""
SESSION = "st.ones(1) is None or st.stats()['session']"
PROCESSES = "st.stats()['processes']"


class Member(Peer):
    """A process that evaluates expressions."""

    def __init__(self, directory: Path, *container: str, **env: str) -> None:
        env = {"SHMTENSOR_RUNTIME_DIR": str(directory), **env}
        command = [*container, sys.executable, "-c", textwrap.dedent(MEMBER)]
        super().__init__(command, clean_environment(**importing_tests(), **env))

    def answer(self) -> Any:
        return ast.literal_eval(super().answer())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def directory(folder) -> Path:
    return folder / "sessions"


@pytest.fixture
def start(directory) -> Iterator[Callable[..., Member]]:
    """Return a function that starts a member; nothing may be left at the end.

    A manager that is killed with its container leaves its file.
    """
    started: list[Member] = []
    in_containers = False

    def start(*container: str, **env: str) -> Member:
        nonlocal in_containers
        in_containers = in_containers or bool(container)
        started.append(Member(directory, *container, **env))
        return started[-1]

    yield start
    for member in started:
        member.kill()
    left = [name.removeprefix("shmtensor-") for name in os.listdir(directory)]
    wait_until(lambda: not any(map(manager_pids, left)), 30, "the managers to end")
    assert in_containers or os.listdir(directory) == []


@pytest.mark.thorough
def test_containers_share_a_session(start, directory) -> None:
    first, second = (start(*in_container("--net")) for _ in range(2))
    first.ask("st.publish('weights', (t := st.zeros(1 << 20, 'u1')))")
    assert second.ask("(w := st.attach('weights')).fill_(7) is w")
    assert first.ask("int(t.numpy().min())") == 7
    assert first.ask(SESSION) == second.ask(SESSION)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert start(*in_container("--net"), SHMTENSOR_RUNTIME_DIR="").ask(SESSION) != first.ask(SESSION)


def test_queue_between_containers(start) -> None:
    first, second = (start(*in_container("--net")) for _ in range(2))
    first.ask("st.publish('queue', (q := st.Queue()))")
    second.ask("[(q := st.attach('queue')), q.put(st.full(3, 4)), q.put('text')] is None")
    assert first.ask("[q.get(timeout=30).numpy().tolist(), q.get(timeout=30)]") == [[4, 4, 4], "text"]


def test_names_in_dev_shm_are_not_shared(start) -> None:
    strategy = {"SHMTENSOR_SHARING_STRATEGY": "file_system"}
    first, second = (start(*in_container("--net"), **strategy) for _ in range(2))
    first.ask("st.publish('weights', (t := st.ones(3)))")
    error = second.ask("error_of(lambda: st.attach('weights'))")
    assert "no longer exists, nor do its tensors, or they are in another container's /dev/shm" in error
    first.ask("st.unpublish('weights')")


@pytest.mark.thorough
def test_session_outlives_the_container_of_its_manager(start) -> None:
    first, second = (start(*in_container("--net")) for _ in range(2))
    first.ask("st.publish('weights', st.full(1000, 7))")
    assert second.ask("int((w := st.attach('weights')).numpy().sum())") == 7000
    first.kill()  # and with it the manager, which is in its PID namespace
    wait_until(lambda: second.ask(PROCESSES) == 1, 30, "the other container's end to be noticed")
    second.ask("st.publish('more', st.full(10, 3))")
    third = start(*in_container("--net"))
    assert third.ask("int(st.attach('weights').numpy().sum() + st.attach('more').numpy().sum())") == 7030


def test_killed_manager_is_replaced_by_one_for_both_containers(start) -> None:
    first, second = (start(*in_container("--net")) for _ in range(2))
    first.ask("st.publish('weights', st.full(1000, 7))")
    session = second.ask(SESSION)
    for publisher, reader, name in ((first, second, "a"), (second, first, "b")):
        kill_manager_of(session)
        publisher.ask(f"st.publish('{name}', st.full(10, 3))")
        assert reader.ask(f"int(st.attach('{name}').numpy().sum())") == 30
        assert reader.ask(PROCESSES) == 2
    assert manager_pid(session)


@pytest.mark.thorough
def test_message_of_idle_process_is_kept_when_the_manager_is_killed(start) -> None:
    """Regression: it was discarded, because the next manager cannot see what that process has open."""
    first, second = (start(*in_container("--net")) for _ in range(2))
    first.ask("st.publish('queue', (q := st.Queue()))")
    second.ask("(q := st.attach('queue')).put(st.full(3, 4)) is None")
    kill_manager_of(first.ask(SESSION))
    error = first.ask("error_of(lambda: q.get(timeout=30))")
    assert "a process in another PID namespace, which may have the arena, has not used the session" in error
    assert first.ask("q.qsize()") == 1
    first.begin("q.get(timeout=30).numpy().tolist()")
    assert second.ask(PROCESSES) == 2
    assert first.answer() == [4, 4, 4]


@pytest.mark.thorough
def test_processes_that_start_together_meet(start) -> None:
    members = [start() for _ in range(12)]
    for member in members:
        member.begin("(t := st.ones(1)).nbytes")
    assert [member.answer() for member in members] == [8] * 12
    assert {member.ask(PROCESSES) for member in members} == {12}
    assert manager_pid(members[0].ask(SESSION))


@pytest.mark.thorough
def test_names_distinguish_sessions_in_a_directory(start) -> None:
    unnamed, one, same, other = (start(SHMTENSOR_SESSION=name) for name in ("", "one", "one", "other"))
    sessions = [member.ask(SESSION) for member in (unnamed, one, same, other)]
    assert sessions[1] == sessions[2]
    assert len(set(sessions)) == 3


@pytest.mark.thorough
def test_children_of_every_start_method_are_in_the_session(directory) -> None:
    program = """
        import multiprocessing as mp
        import shmtensor as st

        def fill(tensor, sessions):
            tensor.fill_(st.full(1, 5).numpy()[0])
            sessions.put(st.stats()["session"])

        if __name__ == "__main__":
            tensor = st.zeros(10)
            for method in ("fork", "spawn", "forkserver"):
                context = mp.get_context(method)
                sessions = context.SimpleQueue()
                child = context.Process(target=fill, args=(tensor, sessions))
                child.start()
                assert sessions.get() == st.stats()["session"]
                child.join()
                assert tensor.numpy().sum() == 50
                tensor.fill_(0)
    """
    path = directory.parent / "program.py"
    path.write_text(textwrap.dedent(program))
    output(run_command([sys.executable, str(path)], env={"SHMTENSOR_RUNTIME_DIR": str(directory)}))
    wait_until(lambda: os.listdir(directory) == [], 30, "the manager to remove its file")


@pytest.mark.thorough
def test_files_of_killed_sessions_are_replaced_and_removed(start, directory) -> None:
    killed = [start(SHMTENSOR_SESSION=name) for name in ("one", "other")]
    sessions = [member.ask(SESSION) for member in killed]
    for member, session in zip(killed, sessions, strict=True):
        member.process.send_signal(signal.SIGSTOP)  # so that it starts no other manager
        kill_manager_of(session)
        member.kill()
    assert sorted(os.listdir(directory)) == sorted(f"shmtensor-{session}" for session in sessions)
    foreign = directory / "shmtensor-notes"
    foreign.touch()
    with socket.socket(socket.AF_UNIX) as unrelated:
        unrelated.bind(str(directory / "other.sock"))
    member = start(SHMTENSOR_SESSION="one")
    assert member.ask(SESSION) == sessions[0]
    assert sorted(os.listdir(directory)) == ["other.sock", f"shmtensor-{sessions[0]}", "shmtensor-notes"]
    foreign.unlink()
    (directory / "other.sock").unlink()


@pytest.mark.thorough
def test_starter_killed_before_it_listens_is_replaced(start, directory) -> None:
    """Its file is there, bound, without a listener."""
    session = start().ask(SESSION)
    other = f"shmtensor-{'0' * 32}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as bound:
        bound.bind(str(directory / other))
        member = start(SHMTENSOR_SESSION="0" * 32)
        assert member.ask(SESSION) == "0" * 32 != session


@pytest.mark.thorough
def test_listed_sessions_are_those_of_the_directory(start, directory) -> None:
    session = start().ask(SESSION)
    command = [sys.executable, "-m", "shmtensor", "ls"]
    assert session in run_command(command, env={"SHMTENSOR_RUNTIME_DIR": str(directory)}).stdout
    assert session not in run_command(command).stdout


def make_file(path: Path) -> None:
    path.touch()


def make_open(path: Path) -> None:
    path.mkdir()
    path.chmod(0o750)


def make_foreign(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    path.mkdir(mode=0o700)
    os.chown(path, 12345, -1)


@pytest.mark.parametrize(
    ("prepare", "name", "text"),
    [
        (make_file, "{}/file", "cannot open the directory {}/file: Not a directory (ENOTDIR)"),
        (make_open, "{}/open", "directory {}/open: other users may enter it; name a directory of your own"),
        (make_foreign, "{}/foreign", "cannot use the directory {}/foreign: it belongs to another user"),
        (None, "{}/no/parent", "cannot make the directory {}/no/parent: No such file or directory (ENOENT)"),
        (None, "relative", "directory relative: its path must begin with / and have at most 64"),
        (None, "/" + "x" * 64, "its path must begin with / and have at most 64 characters"),
    ],
    ids=["file", "open", "foreign", "parent", "relative", "long"],
)
def test_unusable_directory_is_refused(prepare, name, text, folder) -> None:
    path = name.format(folder)
    if prepare is not None:
        prepare(Path(path))
    program = """
        import shmtensor as st
        for _ in range(2):
            try:
                st.ones(1)
            except st.SessionError as error:
                print(error)
    """
    lines = output(run_python(program, env={"SHMTENSOR_RUNTIME_DIR": path})).splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("SHMTENSOR_RUNTIME_DIR: ")
        assert text.format(folder) in line


@pytest.mark.thorough
def test_member_without_the_directory_is_told(start) -> None:
    """A child whose environment lacks the variable must not start a second manager."""
    session = start().ask(SESSION)
    program = "import shmtensor as st; st.ones(1)"
    done = run_python(program, env={"SHMTENSOR_SESSION": session})
    assert done.returncode == 1
    assert "SHMTENSOR_RUNTIME_DIR" in done.stderr.splitlines()[-1]
