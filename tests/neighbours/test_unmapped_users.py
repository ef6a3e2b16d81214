"""Users that a user namespace does not map appear as its user `nobody` and are distinguished from it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator

import pytest

from tests.helpers.children import clean_environment, importing_tests, run_command, run_python, write_program
from tests.helpers.manager_messages import hello
from tests.helpers.namespaces import as_nobody

STRANGER = 12_345
MAPPED, UNMAPPED = ("--map-user=65534", "--map-group=65534"), ()

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

JOB = """
    import os
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from tests.helpers.children import kill_manager_of

    def add(tensor, outbox):
        tensor += 1
        outbox.put(st.full(3, float(tensor[0])))

    if __name__ == "__main__":
        print("uid", os.geteuid())
        for strategy in ("file_descriptor", "file_system"):
            mp.set_sharing_strategy(strategy)
            tensor = st.zeros(1000)
            for method in ("spawn", "fork"):
                outbox = mp.get_context(method).SimpleQueue()
                child = mp.get_context(method).Process(target=add, args=(tensor, outbox))
                child.start()
                print(outbox.get().tolist(), flush=True)
                child.join()
            kill_manager_of(st.stats()["session"])
            print(st.stats()["processes"], tensor.numpy().sum(), flush=True)
"""
FINE = "uid 65534\n" + "[1.0, 1.0, 1.0]\n[2.0, 2.0, 2.0]\n1 2000.0\n" * 2


@contextlib.contextmanager
def stranger(body: Callable[[], None], uid: int = STRANGER) -> Iterator[int]:
    """Run a function in a forked child of another user; the child is killed at the end."""
    if (pid := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            body()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def run_as_nobody(mapping: tuple[str, ...], path, **more: str) -> subprocess.CompletedProcess[str]:
    command = [*as_nobody(*mapping), sys.executable, str(path)]
    return run_command(command, timeout=60, env=importing_tests() | more)


@pytest.mark.thorough
@pytest.mark.parametrize("mapping", [MAPPED, UNMAPPED], ids=["mapped", "unmapped"])
def test_processes_of_one_unmapped_user_share_tensors(tmp_path, mapping) -> None:
    done = run_as_nobody(mapping, write_program(tmp_path, JOB))
    assert done.stdout == FINE, done


@pytest.mark.parametrize("mapping", [MAPPED, UNMAPPED], ids=["mapped", "unmapped"])
def test_other_user_cannot_join_session(tmp_path, mapping) -> None:
    program = write_program(
        tmp_path,
        """
        import shmtensor as st
        tensor = st.full(4, 42)
        print(st.stats()["session"], flush=True)
        input()
        print(st.stats()["processes"], tensor.tolist(), flush=True)
        """,
    )
    victim = subprocess.Popen(
        [*as_nobody(*mapping), sys.executable, str(program)],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    session = victim.stdout.readline().strip()
    read_end, write_end = os.pipe()

    def attack() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(f"\0shmtensor-{session}")
            try:
                connection.send(hello(session))
                answer, descriptors, *_ = connection.recvmsg(1024, 1024)
            except (BrokenPipeError, ConnectionResetError):
                answer, descriptors = b"", []
        os.write(write_end, f"{len(answer)} bytes, {descriptors}\n".encode())

    try:
        with stranger(attack), os.fdopen(read_end) as answers:
            os.close(write_end)
            answer = answers.readline()
    finally:
        out, _ = victim.communicate("\n", timeout=30)
    assert answer == "0 bytes, []\n"
    assert out == "1 [42, 42, 42, 42]\n"


@pytest.mark.parametrize("mapping", [MAPPED, UNMAPPED], ids=["mapped", "unmapped"])
def test_manager_of_other_user_is_rejected(tmp_path, mapping) -> None:
    """It has bound the address first, and would send its own memory."""
    session = secrets.token_hex(16)
    heard = tmp_path / "heard"
    heard.touch()
    heard.chmod(0o666)
    tmp_path.chmod(0o755)
    log = os.open(heard, os.O_WRONLY | os.O_APPEND)
    read_end, write_end = os.pipe()

    def listen() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"\0shmtensor-{session}")
            listener.listen()
            os.write(write_end, b"!")
            while True:
                connection, _ = listener.accept()
                with contextlib.suppress(OSError):
                    os.write(log, connection.recv(1024))

    program = write_program(tmp_path, "import shmtensor as st\nst.ones(1)")
    try:
        with stranger(listen):
            os.read(read_end, 1)
            done = run_as_nobody(mapping, program, SHMTENSOR_SESSION=session)
    finally:
        for descriptor in (log, read_end, write_end):
            os.close(descriptor)
    assert done.stderr.splitlines()[-1].startswith("shmtensor.errors.SessionError: "), done
    assert "belongs to another user" in done.stderr
    assert heard.read_bytes() == b"", "no message was sent to it"


def test_kernel_without_peer_credentials_raises_named_error(tmp_path) -> None:
    """As before Linux 6.5, and in separate PID namespaces."""
    program = write_program(
        tmp_path,
        """
        import subprocess, sys
        import shmtensor as st
        if len(sys.argv) == 1:
            tensor = st.ones(1)
            below = ["unshare", "--user", "--pid", "--fork"]
            done = subprocess.run([*below, sys.executable, __file__, "child"], capture_output=True, text=True)
            print(done.stderr.splitlines()[-1])
        else:
            st.ones(1)
        """,
    )
    done = run_as_nobody(MAPPED, program)
    assert "SessionError" in done.stdout, done
    assert "may be another user's" in done.stdout
    assert "Linux 6.5" in done.stdout
    assert "run it as a user that the namespace maps" in done.stdout


def test_process_that_started_manager_may_exit(tmp_path) -> None:
    """It created the socket on which the manager listens."""
    program = write_program(
        tmp_path,
        """
        import subprocess, sys
        import shmtensor as st
        if len(sys.argv) > 1:
            tensor = st.ones(1)
            print(st.stats()["processes"], flush=True)
            sys.exit(sys.stdin.read())
        def start():
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            return subprocess.Popen([sys.executable, __file__, "child"], text=True, **pipes)
        first = start()
        print(first.stdout.readline().strip())
        tensor = st.ones(1)
        first.communicate()
        print(start().communicate()[0].strip())
        """,
    )
    done = run_as_nobody(MAPPED, program, SHMTENSOR_SESSION=secrets.token_hex(16))
    assert done.stdout == "1\n2\n", done


def test_machines_user_nobody_can_use_sessions() -> None:
    """Outside of user namespaces all users are distinguished by their uids."""
    done = run_python(
        """
        import os
        import numpy
        import shmtensor as st, shmtensor.multiprocessing as mp
        import shmtensor.reducers, shmtensor._array_reducers  # that user cannot read the modules
        st.ones, st.stats
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        tensor = st.ones(1000)
        if (pid := os.fork()) == 0:
            tensor += 1
            os._exit(0)
        os.waitpid(pid, 0)
        print(tensor.numpy().sum(), st.stats()["processes"])
        """
    )
    if "cannot be started" in done.stderr or "cannot start" in done.stderr:
        pytest.skip("other users cannot run the programs of this environment")
    assert done.stdout.startswith("2000.0 "), done
