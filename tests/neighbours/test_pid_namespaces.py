"""Members whose processes are not visible in the manager's PID namespace.

The session's first process, and with it the manager, runs in its own PID namespace, as in a container of a
pod. The member runs outside. It has a tensor that its owner releases, so that only the member's holder bit
prevents the bytes from being reused.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.children import (
    clean_environment,
    manager_pids,
    run_command,
    run_program,
    run_python,
    wait_until,
    write_program,
)
from tests.helpers.leaks import shm_names

ROOT = {"PYTHONPATH": str(Path(__file__).parents[2])}
OWN_PIDS = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]

PROGRAM = """
    import os, pickle, socket, subprocess, sys, time
    from multiprocessing.reduction import ForkingPickler
    import shmtensor as st
    from tests.helpers.children import wait_until

    def answer(words):
        print(words, flush=True)
        return input()

    if sys.argv[1] == "owner":
        mine = st.full(1000, 7, dtype="int64")
        order = answer(bytes(ForkingPickler.dumps(mine)).hex())
        del mine
        while order != "end":
            if order == "processes":
                order = answer(st.stats()["processes"])
            elif order == "blocks":
                order = answer(st.stats()["blocks"])
            else:  # what the member has must not be among these
                others = [st.full(1000, 666, dtype="int64") for _ in range(50)]
                order = answer("allocated")
        sys.exit()

    class Owner:
        def __init__(self, command):
            self.process = subprocess.Popen(
                [*command, sys.executable, __file__, "owner"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            self.pipes = {self.process.stdin.fileno(), self.process.stdout.fileno()}
            self.handle = bytes.fromhex(self.process.stdout.readline())
        def ask(self, order):
            self.process.stdin.write(order + "\\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().strip()
        def end(self):
            self.process.communicate("end\\n", timeout=30)

    def close_all(but):
        for number in map(int, os.listdir("/proc/self/fd")):
            if number > 2 and number not in but:
                try:
                    os.close(number)
                except OSError:
                    pass

    def break_connection():
        # As after a timeout: the member closes its connection.
        for number in map(int, os.listdir("/proc/self/fd")):
            path = f"/proc/self/fd/{number}"
            if os.path.islink(path) and os.readlink(path).startswith("socket:"):
                with socket.socket(fileno=os.dup(number)) as connection:
                    connection.shutdown(socket.SHUT_RDWR)

    owner = Owner(sys.argv[3:])
    held = pickle.loads(owner.handle)
    array = held.numpy()
    assert owner.ask("processes") == "2"
    session = st.stats()["session"]
"""

KEEPS = """
    what = sys.argv[2]
    child = 0
    if what == "forked child":
        ready, reported = os.pipe()
        child = os.fork()
        if child == 0:
            close_all({reported})
            os.write(reported, b"1")
            time.sleep(60)
            os._exit(1)
        os.close(reported)
        os.read(ready, 1)
        del array, held
        expected = "3"
    elif what == "closed descriptors":
        close_all(owner.pipes)
        expected = "2"
    else:
        break_connection()
        expected = "2"
    for _ in range(5):  # the manager looks again after some time
        assert owner.ask("processes") == expected
        time.sleep(0.3)
    assert owner.ask("allocate") == "allocated"
    if child:
        assert owner.ask("blocks") == "51", "the child's block is kept"
        os.kill(child, 9)
        os.waitpid(child, 0)
        wait_until(lambda: owner.ask("processes") == "2", what="the child's end to be seen")
        assert owner.ask("blocks") == "50"
    else:
        assert set(array.tolist()) == {7}
        assert st.ones(3).numpy().sum() == 3, "it finds its way back"
        assert owner.ask("processes") == "2"
    owner.end()
    print(session)
"""

LEAVES = """
    what = sys.argv[2]
    child = os.fork()
    if child == 0:
        if what == "executes another program":
            os.execlp("sleep", "sleep", "60")
        time.sleep(60)
        os._exit(1)
    if what == "is killed":
        wait_until(lambda: owner.ask("processes") == "3", what="the child to join")
        os.kill(child, 9)
    wait_until(lambda: owner.ask("processes") == "2", what="the child's end to be seen")
    del array, held
    assert owner.ask("blocks") == "0"
    os.kill(child, 9)
    os.waitpid(child, 0)
    owner.end()
    print(session)
"""


@pytest.fixture(autouse=True)
def allowed() -> None:
    done = subprocess.run([*OWN_PIDS, "true"], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no PID namespaces of one's own here: {done.stderr.strip()}")


def run(program: str, what: str, tmp_path: Path) -> None:
    done = run_program(write_program(tmp_path, PROGRAM + program), "member", what, *OWN_PIDS, env=ROOT)
    assert done.returncode == 0, done.stderr
    session = done.stdout.strip()
    wait_until(lambda: not manager_pids(session), what="the manager to end")


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["broken connection", "closed descriptors", "forked child"])
def test_process_in_other_pid_namespace_keeps_its_blocks(what, tmp_path) -> None:
    """Regression: its array was overwritten, since a closed connection counted as its death."""
    run(KEEPS, what, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["is killed", "executes another program"])
def test_exit_of_process_in_other_pid_namespace_is_noticed(what, tmp_path) -> None:
    run(LEAVES, what, tmp_path)


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
    done = run_command(command, env=ROOT)
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
    done = run_command([*OWN_PIDS, sys.executable, write_program(tmp_path, FIRST)], env=ROOT)
    assert done.returncode == 0, done.stderr
    session = done.stdout.strip()
    wait_until(lambda: not manager_pids(session), what="the manager to end")


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
    env = {**ROOT, "SHMTENSOR_SESSION": str(tmp_path)}
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
    run_command([sys.executable, "-m", "shmtensor", "gc"], env=ROOT)
    assert not shm_names(session)


@pytest.mark.thorough
def test_gc_removes_names_of_a_pid_namespace_after_its_end_only(tmp_path) -> None:
    program = write_program(tmp_path, CRASHES)
    env = {**clean_environment(), **ROOT, "SHMTENSOR_SESSION": str(tmp_path)}
    alone = [*OWN_PIDS, "--net"]  # nor is its manager's address visible
    command = [*alone, sys.executable, str(program), "wait"]
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        session = process.stdout.readline().split()[0]
        names = shm_names(session)
        assert names
        collect = [sys.executable, "-m", "shmtensor", "gc"]
        assert session not in run_command(collect, env=ROOT).stdout, "processes have them open"
        assert shm_names(session) == names
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: not shm_names(session) or session in run_command(collect, env=ROOT).stdout)
    assert not shm_names(session)
