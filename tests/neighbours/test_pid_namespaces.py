"""Members whose processes are not visible in the manager's PID namespace.

The session's first process, and with it the manager, runs in its own PID namespace, as in a container of a
pod. The member runs outside. It has a tensor that its owner releases, so that only the member's holder bit
prevents the bytes from being reused.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.helpers.children import (
    await_end_of_session,
    clean_environment,
    importing_tests,
    run_beside,
    run_command,
    run_python,
    wait_until,
    write_program,
)
from tests.helpers.leaks import shm_names

OWN_PIDS = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture(autouse=True)
def allowed() -> None:
    done = subprocess.run([*OWN_PIDS, "true"], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no PID namespaces of one's own here: {done.stderr.strip()}")


KEEPS = ["broken connection", "closed descriptors", "forked child"]
LEAVES = ["is killed", "executes another program"]


@pytest.mark.thorough
@pytest.mark.parametrize("what", KEEPS + LEAVES)
def test_process_in_other_pid_namespace_keeps_its_blocks_until_its_exit(what) -> None:
    """Regression: its array was overwritten, since a closed connection counted as its death."""
    await_end_of_session(run_beside(__file__, "pid_namespaces", "member", what, *OWN_PIDS))


NAMED = """
    import ctypes, os, signal, sys
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from tests.helpers.children import manager_pid

    mp.set_sharing_strategy("file_system")
    tensor = st.ones(3)
    if sys.argv[1] == "inherits nothing":  # then the child joins the session itself
        del tensor
    CLONE_NEWPID = 0x20000000  # children begin the namespace, and see this one's /proc
    assert ctypes.CDLL(None).unshare(CLONE_NEWPID) == 0
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        own = st.ones(3)
        os.write(writer, b"!")
        signal.pause()
    os.read(reader, 1)
    session = st.stats()["session"]
    print(session, flush=True)
    for pid in (manager_pid(session), child, os.getpid()):
        os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["inherits a tensor", "inherits nothing"])
def test_names_of_killed_child_in_other_pid_namespace_are_removed(what, tmp_path) -> None:
    """Regression: found by the torture. They counted as those of a namespace that is not visible here."""
    program = write_program(tmp_path, NAMED)
    command = ["unshare", "--user", "--map-root-user", sys.executable, program, what]
    done = run_command(command, env=importing_tests())
    assert done.returncode == -signal.SIGKILL, done.stderr
    session = done.stdout.strip()
    assert len(shm_names(session)) == 2
    run_python("import shmtensor as st; st.ones(1)")  # a new session removes them
    wait_until(lambda: not shm_names(session), what="the names to be removed")


FIRST = """
    import ctypes, os
    import shmtensor as st

    assert os.getpid() == 1
    tensor = st.full(1000, 7, dtype="int64")
    CLONE_NEWPID = 0x20000000
    assert ctypes.CDLL(None).unshare(CLONE_NEWPID) == 0
    ready, reported = os.pipe()
    order, ordered = os.pipe()
    if (child := os.fork()) == 0:
        assert os.getpid() == 1, "as its parent"
        os.closerange(ordered, 1 << 16)  # the connection to the manager, too
        os.write(reported, b"!")
        os.read(order, 1)
        os._exit(set(tensor.tolist()) != {7})
    os.read(ready, 1)
    del tensor
    assert st.stats()["processes"] == 2
    others = [st.full(1000, 666, dtype="int64") for _ in range(50)]
    assert st.stats()["blocks"] == 51
    os.write(ordered, b"!")
    assert os.waitpid(child, 0)[1] == 0
    print(st.stats()["session"])
"""


def test_child_with_the_pid_of_its_parent_keeps_what_it_inherited(tmp_path) -> None:
    """Regression: it released its own lock for its parent's, counted as dead, and read another tensor."""
    command = [*OWN_PIDS, sys.executable, str(write_program(tmp_path, FIRST))]
    await_end_of_session(run_command(command, env=importing_tests()))


CRASHES = """
    import os, sys
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    mp.set_sharing_strategy("file_system")
    tensors = [st.ones(1 << 20, dtype="uint8") for _ in range(3)]
    print(st.stats()["session"], os.getpid(), flush=True)
    if sys.argv[1] == "crash":
        os._exit(1)  # the kernel kills all of the namespace, the manager too
    if sys.argv[1] == "wait":
        input()
    assert sum(tensor.numpy().sum() for tensor in tensors) == 3 << 20
"""


@pytest.mark.thorough
def test_session_starts_again_after_its_pid_namespace_was_killed(tmp_path) -> None:
    """As a container that crashed, on the same /dev/shm. The numbers in the names begin at 1 again."""
    program = write_program(tmp_path, CRASHES)
    env = {**importing_tests(), "SHMTENSOR_SESSION": str(tmp_path)}
    crash = [*OWN_PIDS, sys.executable, str(program), "crash"]
    for _ in range(3):
        done = run_command(crash, env=env)
        session, pid = done.stdout.split()
        assert (pid, done.returncode) == ("1", 1), done
        assert shm_names(session), "what the next one finds"
    done = run_command([*OWN_PIDS, sys.executable, str(program), "end"], env=env)
    assert done.returncode == 0, done
    assert done.stdout.split()[0] == session
    assert len(shm_names(session)) == 1, "the manager ended with its namespace"
    run_command([sys.executable, "-m", "shmtensor", "gc"], env=importing_tests())
    assert not shm_names(session)


@pytest.mark.thorough
def test_gc_removes_names_of_a_pid_namespace_after_its_end_only(tmp_path) -> None:
    program = write_program(tmp_path, CRASHES)
    env = {**clean_environment(), **importing_tests(), "SHMTENSOR_SESSION": str(tmp_path)}
    alone = [*OWN_PIDS, "--net"]  # nor is its manager's address visible
    command = [*alone, sys.executable, str(program), "wait"]
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        session = process.stdout.readline().split()[0]
        names = shm_names(session)
        assert names
        collect = [sys.executable, "-m", "shmtensor", "gc"]
        assert session not in run_command(collect, env=importing_tests()).stdout, "processes have them open"
        assert shm_names(session) == names
    finally:
        process.kill()
        process.communicate()
    wait_until(
        lambda: not shm_names(session) or session in run_command(collect, env=importing_tests()).stdout
    )
    assert not shm_names(session)
