"""A daemon closes all its descriptors, and perhaps its session's manager is killed besides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.children import manager_pids, run_python, wait_until

ROOT = {"PYTHONPATH": str(Path(__file__).parents[2])}

PRELUDE = """
    import os, pickle, sys
    from multiprocessing.reduction import ForkingPickler
    import shmtensor as st
    from tests.helpers.children import kill_manager_of

    def close_all_but(kept):
        os.closerange(3, kept)
        os.closerange(kept + 1, 4096)
        for _ in range(20):
            os.dup(0)  # takes the numbers of the closed ones

    tensor = st.full(1000, 7)
    session = st.stats()["session"]
"""

WITH_OTHERS = """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        kept = os.dup2(writer, 500)
        close_all_but(kept)
        try:
            if sys.argv[1] == "killed":
                kill_manager_of(session)
            if sys.argv[2] == "publish":
                st.publish("name", tensor)
            elif sys.argv[2] == "allocate":
                new = st.full(1000, 8)
            answer = bytes(ForkingPickler.dumps([tensor, st.full(1000, 8)]))
            assert tensor.tolist() == [7] * 1000
        except BaseException as error:
            answer = repr(error).encode()
        os.write(kept, answer)
        os.close(kept)
        os.read(0, 1)
        os._exit(0)
    os.close(writer)
    answer = b"".join(iter(lambda: os.read(reader, 4096), b""))
    try:
        first, second = pickle.loads(answer)
    except pickle.UnpicklingError:
        raise SystemExit(answer.decode()) from None
    assert first.storage() is tensor.storage()
    assert second.tolist() == [8] * 1000
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    print(session)
"""

RECEIVER = """
    messages, answers = os.pipe2(os.O_DIRECT)  # each read returns one write
    if (daemon := os.fork()) == 0:
        os.dup2(messages, 500)
        close_all_but(500)
        try:
            for value in 7, 9:
                assert pickle.loads(os.read(500, 4096)).tolist() == [value] * 1000
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
    if (sender := os.fork()) == 0:  # its tickets are not mapped, nor is its arena
        for sent in tensor, st.full(1000, 9):
            os.write(answers, bytes(ForkingPickler.dumps(sent)))
        os._exit(0)
    os.waitpid(sender, 0)
    print(os.waitpid(daemon, 0)[1])
"""

WATCHER = """
    import queue, select, socket

    def is_readable(descriptor, seconds=30):
        return bool(select.select([descriptor], [], [], seconds)[0])

    watched, answers = st.Queue(), st.Queue()
    watched.fileno()
    if (daemon := os.fork()) == 0:
        try:
            watched.fileno()  # its own, beside the parent's
            os.closerange(3, 4096)
            pairs = [socket.socketpair() for _ in range(10)]  # have the numbers of the closed ones
            for pair in pairs:
                for one, other in pair, pair[::-1]:
                    one.send(b"for another library")
            try:
                watched.get_nowait()
            except queue.Empty:
                pass
            assert not is_readable(watched.fileno(), 0)
            answers.put("waits")
            assert is_readable(watched)
            assert watched.get_nowait() == 1
            while is_readable(watched.fileno(), 0):  # if the process that has put it still has the lock
                try:
                    raise AssertionError(watched.get_nowait())
                except queue.Empty:
                    pass
            del watched
            for pair in pairs:
                for one in pair:
                    assert one.recv(100, socket.MSG_DONTWAIT) == b"for another library"
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
    assert answers.get(timeout=30) == "waits"
    watched.put(1)
    print(os.waitpid(daemon, 0)[1])
"""

ALONE = """
    close_all_but(500)
    kill_manager_of(session)
    for _ in range(2):
        try:
            ForkingPickler.dumps(tensor)
        except st.SessionError as error:
            print(error)
    assert tensor.tolist() == [7] * 1000
"""


@pytest.mark.thorough
@pytest.mark.parametrize("manager", ["alive", "killed"])
@pytest.mark.parametrize("first", ["send", "publish", "allocate"])
def test_daemon_without_descriptors_can_send(manager, first) -> None:
    """The descriptor of the session's memory was lost for good; the manager, or another process, has one."""
    done = run_python(PRELUDE + WITH_OTHERS, env=ROOT, arguments=(manager, first))
    assert done.returncode == 0, done.stderr
    session = done.stdout.strip()
    wait_until(lambda: not manager_pids(session), what="the manager to end")


def test_daemon_without_descriptors_can_receive() -> None:
    """It must map the tickets of a sender that is new to it, then its arena."""
    done = run_python(PRELUDE + RECEIVER, env=ROOT)
    assert done.stdout == "0\n", done.stderr
    assert done.returncode == 0, done.stderr


def test_daemon_without_descriptors_can_wait_for_a_queue() -> None:
    """Its queue neither reads nor closes the files that have the numbers of its descriptors."""
    done = run_python(PRELUDE + WATCHER, env=ROOT)
    assert done.stdout == "0\n", done.stderr


def test_lost_session_of_a_lone_daemon_is_reported() -> None:
    """With the manager, the last descriptor of the session is gone; what the daemon has mapped stays."""
    done = run_python(PRELUDE + ALONE, env=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("this program closed the descriptor of the session, and no other") == 2
