"""A daemon closes all its descriptors, and perhaps its session's manager is killed besides."""

from __future__ import annotations

from pathlib import Path

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
        return [os.dup(0) for _ in range(20)]  # they take the numbers of the closed ones

    tensor = st.full(1000, 7)
    session = st.stats()["session"]
"""

INHERITS_NOTHING = """
    del tensor
    reader, writer = os.pipe()
    if (daemon := os.fork()) == 0:
        kept = os.dup2(writer, 500)
        close_all_but(kept)
        queue = st.Queue()
        queue.put(st.full(1000, 8))
        os.write(kept, bytes(ForkingPickler.dumps(queue.get())))
        os._exit(st.stats()["session"] != session)
    os.close(writer)
    assert pickle.loads(os.read(reader, 4096)).tolist() == [8] * 1000
    print(os.waitpid(daemon, 0)[1])
"""

INHERITS_A_TENSOR = """
    messages, sent = os.pipe()
    if (sender := os.fork()) == 0:
        os.write(sent, bytes(ForkingPickler.dumps(st.full(1000, 9))))
        os._exit(0)
    os.waitpid(sender, 0)
    message = os.read(messages, 4096)
    if (daemon := os.fork()) == 0:
        others = close_all_but(500)
        new = st.full(1000, 8)
        for call in (
            lambda: ForkingPickler.dumps(tensor),
            lambda: ForkingPickler.dumps(new),
            lambda: pickle.loads(message),
            lambda: st.publish("name", tensor),
        ):
            try:
                call()
            except st.SessionError as error:
                print(error, flush=True)
        usable = tensor.tolist() == [7] * 1000 and new.tolist() == [8] * 1000
        del tensor, new
        for number in others:
            os.fstat(number)
        os._exit(not usable)
    assert os.waitpid(daemon, 0)[1] == 0
    assert pickle.loads(message).tolist() == [9] * 1000, "it is unread"
    print(session)
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
    for call in lambda: ForkingPickler.dumps(tensor), st.stats:
        try:
            call()
        except st.SessionError as error:
            print(error)
    assert tensor.tolist() == [7] * 1000
"""


def test_daemon_that_inherits_no_tensor_joins_again() -> None:
    done = run_python(PRELUDE + INHERITS_NOTHING, env=ROOT)
    assert done.stdout == "0\n", done.stderr


def test_daemon_that_inherits_a_tensor_can_read_but_neither_send_nor_receive() -> None:
    """The files that have the numbers of its descriptors are neither used nor closed."""
    done = run_python(PRELUDE + INHERITS_A_TENSOR, env=ROOT)
    assert done.returncode == 0, done.stderr
    *errors, session = done.stdout.splitlines()
    assert len(errors) == 4, errors
    for error in errors:
        assert error.startswith(
            f"the descriptor of the memory of session {session} was closed by this program;"
        )
    wait_until(lambda: not manager_pids(session), what="the manager to end")


def test_daemon_without_descriptors_can_wait_for_a_queue() -> None:
    """Its queue neither reads nor closes the files that have the numbers of its descriptors."""
    done = run_python(PRELUDE + WATCHER, env=ROOT)
    assert done.stdout == "0\n", done.stderr


def test_lost_session_of_a_lone_daemon_is_reported() -> None:
    """With the manager, the last descriptor of the session is gone; what the daemon has mapped stays."""
    done = run_python(PRELUDE + ALONE, env=ROOT)
    assert done.returncode == 0, done.stderr
    send, ask = done.stdout.splitlines()
    assert "was closed by this program" in send
    assert "this program closed the descriptor of the session, and no other" in ask
