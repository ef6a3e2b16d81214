"""Few descriptors, and managers that do not answer."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from textwrap import dedent

import pytest

from tests.helpers.children import kill, output, run_beside, run_python

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
def test_session_works_with_few_descriptors(strategy, limit) -> None:
    program = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))"
    done = run_python(program + "\n" + dedent(ROUND_TRIP), env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "2000.0\n", done


def test_exhausted_descriptors_raise_named_error(strategy) -> None:
    program = """
        import os, resource
        import shmtensor as st
        ones = st.ones  # which imports the modules
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
        try:
            ones(10)
        except (st.ShmTensorError, OSError) as error:
            assert "EMFILE" in str(error) or "RLIMIT_NOFILE" in str(error), error
        else:
            raise AssertionError("it needs a descriptor")
        for fd in taken:
            os.close(fd)
        print(st.ones(10).numpy().sum())  # nothing of the failed attempt is in the way
    """
    assert output(run_python(program, env={"SHMTENSOR_SHARING_STRATEGY": strategy})) == "10.0\n"


USE = """
    import sys
    import shmtensor as st
    try:
        print(st.ones(10).numpy().sum())
    except st.ShmTensorError as error:
        print(type(error).__name__, error)
    """


def test_file_size_limit_is_named() -> None:
    """Regression: the error for the session's large sparse files was "File too large", without the limit."""
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
        """
    done = run_python(dedent(program) + dedent(USE))
    assert "RLIMIT_FSIZE" in done.stdout, done
    assert "ulimit -f" in done.stdout, done


def test_missing_arena_is_named_if_descriptors_are_short() -> None:
    """Regression: a process that requested the arena's file again reported a stale arena number."""
    done = run_beside(__file__, "killed_makers", "missing_arena")
    assert "arena 2 of session" in done.stdout, done  # the second one created


def test_missing_named_session_is_started() -> None:
    session = secrets.token_hex(16)
    assert output(run_python(USE, env={"SHMTENSOR_SESSION": session})) == "10.0\n"


@pytest.mark.thorough
def test_unresponsive_manager_raises_timeout() -> None:
    """A process listens at the session's address and does not answer: an error, not a hang."""
    session = secrets.token_hex(16)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0shmtensor-{session}")
        listener.listen()
        done = run_python(USE, env={"SHMTENSOR_SESSION": session})
    assert done.stdout.startswith("SessionError"), done
    assert session in done.stdout
    assert "did not answer within 10 seconds" in done.stdout


def test_manager_that_closes_connections_raises() -> None:
    session = secrets.token_hex(16)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0shmtensor-{session}")
        listener.listen()
        if (pid := os.fork()) == 0:
            signal.alarm(60)
            while True:
                listener.accept()[0].close()
        try:
            done = run_python(USE, env={"SHMTENSOR_SESSION": session})
        finally:
            kill(pid)
    assert done.stdout.startswith("SessionError"), done
    assert session in done.stdout
