"""The leak guard of conftest.py finds every kind of leak, and reports no false ones."""

from __future__ import annotations

import mmap
import os
import pickle
import re
import secrets
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import shmtensor as st
import shmtensor.multiprocessing  # registers
from shmtensor import _core
from tests.helpers.children import run_python
from tests.helpers.leaks import Snapshot, names_kept, shm_names


@contextmanager
def descriptor() -> Iterator[str]:
    fd = os.open("/dev/null", os.O_RDONLY)
    yield rf"descriptors \['{fd} -> /dev/null'\]"
    os.close(fd)


@contextmanager
def mapping() -> Iterator[str]:
    fd = os.memfd_create("shmtensor-leak")
    os.ftruncate(fd, 4096)
    with mmap.mmap(fd, 4096):
        os.close(fd)
        yield "1 mappings"


@contextmanager
def name() -> Iterator[str]:
    path = Path(f"/dev/shm/shmtensor-{st.stats()['session']}-99999")  # `gc` keeps it
    path.touch()
    yield rf"names in /dev/shm \['{path.name}'\]"
    path.unlink()


@contextmanager
def child() -> Iterator[str]:
    process = subprocess.Popen(["sleep", "1000"])
    yield rf"children \[{process.pid}\]"
    process.kill()
    process.wait()


@contextmanager
def grandchild() -> Iterator[str]:
    command = "import subprocess; p = subprocess.Popen(['sleep', '1000']); print(p.pid, flush=True); p.wait()"
    process = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, text=True)
    sleeper = int(process.stdout.readline())
    yield rf"children \[.*{sleeper}"
    os.kill(sleeper, 9)
    process.wait()
    process.stdout.close()


@contextmanager
def block() -> Iterator[str]:
    tensors = [st.zeros(3), st.Storage(5)]
    yield "2 blocks"
    del tensors


@contextmanager
def message() -> Iterator[str]:
    tensor = st.zeros(3)
    content = ForkingPickler.dumps(tensor)
    yield "1 unread messages"
    pickle.loads(content)


LEAKS = [descriptor, mapping, name, child, grandchild, block, message]


@pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: leak.__name__)
def test_leak_guard_reports_each_kind_until_fixed(leak) -> None:
    before = Snapshot.take()
    with leak() as expected:
        problems = Snapshot.settled_difference(before, timeout=0.1)
        assert [problem for problem in problems if re.search(expected, problem)], problems
    assert Snapshot.settled_difference(before) == []


def test_leak_guard_ignores_earlier_resources() -> None:
    with descriptor(), mapping(), name(), child(), block(), message():
        before = Snapshot.take()
        assert Snapshot.settled_difference(before) == []


def test_leak_guard_ignores_fewer_resources() -> None:
    with descriptor(), mapping(), name(), child(), block(), message():
        before = Snapshot.take()
    assert Snapshot.settled_difference(before) == []


def test_leak_guard_waits_for_delayed_cleanup() -> None:
    before = Snapshot.take()
    process = subprocess.Popen(["sleep", "0.2"])
    waiter = threading.Thread(target=process.wait)
    waiter.start()
    assert Snapshot.settled_difference(before) == []
    waiter.join()


def test_leak_guard_does_not_consume_messages() -> None:
    tensor = st.zeros(3)
    content = ForkingPickler.dumps(tensor)
    Snapshot.settled_difference(Snapshot.take(), timeout=0)
    assert pickle.loads(content).storage() is tensor.storage()


def run_inner_tests(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a separate folder with the guards of this one's conftest.py."""
    (folder / "conftest.py").write_text(
        "from tests.conftest import helpers_running, leak_guard, pytest_sessionfinish, pytest_sessionstart\n"
    )
    (folder / "test_inner.py").write_text(textwrap.dedent(text))
    return run_python(
        "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))",
        arguments=(str(folder), "-p", "no:cacheprovider", "-rA", f"--rootdir={folder}"),
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
    )


@pytest.mark.thorough
def test_leaking_test_fails_and_its_neighbours_pass(tmp_path) -> None:
    done = run_inner_tests(
        tmp_path,
        """
        import os
        import shmtensor as st

        kept = []

        def test_before():
            st.zeros(3)

        def test_leaks():
            kept.append(st.zeros(3))
            kept.append(os.open("/dev/null", os.O_RDONLY))

        def test_after():
            st.zeros(3)
        """,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 passed, 1 error" in done.stdout
    assert re.search(r"^ERROR .*test_inner\.py::test_leaks", done.stdout, re.MULTILINE)
    assert "left behind: descriptors" in done.stdout
    assert "1 blocks" in done.stdout


@pytest.mark.thorough
def test_pytest_run_that_leaves_name_of_dead_session_fails(tmp_path) -> None:
    name = f"shmtensor-{secrets.token_hex(16)}-1"
    done = run_inner_tests(
        tmp_path,
        f"""
        kept = open("/dev/shm/{name}", "wb")  # so that no manager that starts in the meantime removes it

        def test_nothing():
            pass
        """,
    )
    Path(f"/dev/shm/{name}").unlink(missing_ok=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    # Beside it may be names that other tests leave at that moment.
    (error,) = [line for line in done.stdout.splitlines() if "the tests left names in /dev/shm: [" in line]
    assert repr(name) in error


def test_kept_names_survive_manager_start() -> None:
    session = secrets.token_hex(16)
    name = f"shmtensor-{session}-1"
    Path(f"/dev/shm/{name}").touch()
    with names_kept(session):
        _core.sweep_names(False)
        assert shm_names(session) == {name}
    _core.sweep_names(False)
    assert not shm_names(session)
