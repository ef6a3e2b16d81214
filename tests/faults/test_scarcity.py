"""Few descriptors, and a session that does not answer."""

from __future__ import annotations

import os
import secrets
import signal
import socket

import pytest

from tests.helpers.children import run_python

ROUND_TRIP = """
    import os, sys
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    def main():
        context = mp.get_context("fork")
        inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
        process = context.Process(target=lambda: outbox.put(inbox.get() + 1))
        process.start()
        tensor = st.ones(1000)
        inbox.put(tensor)
        print(outbox.get().sum())
        process.join()

    main()
    """


@pytest.mark.parametrize("limit", [16, 24])
def test_few_descriptors(strategy, limit) -> None:
    program = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))"
    from textwrap import dedent

    done = run_python(program + "\n" + dedent(ROUND_TRIP), env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "2000.0\n", done


def test_no_descriptor_at_all_is_an_error_that_says_so(strategy) -> None:
    program = """
        import os, resource
        import shmtensor as st
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
        try:
            st.ones(10)
        except (st.ShmTensorError, OSError) as error:
            assert "EMFILE" in str(error) or "RLIMIT_NOFILE" in str(error), error
        else:
            raise AssertionError("it needs a descriptor")
        for fd in taken:
            os.close(fd)
        print(st.ones(10).numpy().sum())  # nothing of the failed attempt is in the way
    """
    done = run_python(program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "10.0\n", done


USE = """
    import sys
    import shmtensor as st
    try:
        print(st.ones(10).numpy().sum())
    except st.ShmTensorError as error:
        print(type(error).__name__, error)
    """


def test_a_named_session_that_is_not_there_is_started() -> None:
    session = secrets.token_hex(16)
    done = run_python(USE, env={"SHMTENSOR_SESSION": session})
    assert done.stdout == "10.0\n", done


def test_a_session_that_takes_calls_and_does_not_answer() -> None:
    """Somebody listens at the session's address and says nothing: an error, not a hang."""
    session = secrets.token_hex(16)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0shmtensor-{session}")
        listener.listen()
        done = run_python(USE, env={"SHMTENSOR_SESSION": session})
    assert done.stdout.startswith("SessionError"), done
    assert session in done.stdout
    assert "did not answer within 10 seconds" in done.stdout


def test_a_session_that_hangs_up_is_an_error() -> None:
    session = secrets.token_hex(16)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0shmtensor-{session}")
        listener.listen()
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            while True:
                listener.accept()[0].close()
        try:
            done = run_python(USE, env={"SHMTENSOR_SESSION": session})
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert done.stdout.startswith("SessionError"), done
    assert session in done.stdout
