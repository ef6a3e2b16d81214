"""Systems that lack a feature: sessions work without it, or an error names it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import shmtensor as st
from tests.helpers.children import manager_pid, output, program_beside, run_command, run_python
from tests.helpers.namespaces import with_own_mounts
from tests.helpers.system_call_filter import forbidding

JOB = program_beside(__file__, "environment")

ENOSYS, EPERM, ENOMEM = 38, 1, 12
# Numbers on x86-64 and on arm64 differ below 424.
X86 = os.uname().machine == "x86_64"
MEMFD_CREATE = 319 if X86 else 279
FALLOCATE = 285 if X86 else 47
STATX = 332 if X86 else 291
MEMBARRIER = 324 if X86 else 283
READLINKAT = 267 if X86 else 78
PIDFD_SEND_SIGNAL, PIDFD_OPEN, CLOSE_RANGE, PIDFD_GETFD = 424, 434, 436, 438

SOME_METHODS = pytest.mark.parametrize("start_method", ["spawn", "server"])


def run(command, strategy) -> subprocess.CompletedProcess[str]:
    return run_command(command, timeout=100, env={"SHMTENSOR_SHARING_STRATEGY": strategy})


@pytest.mark.thorough
@pytest.mark.parametrize("error", [ENOSYS, EPERM])
def test_session_works_without_optional_system_calls(strategy, start_method, error, tmp_path) -> None:
    """Without pidfds, close_range and statx, other calls are used."""
    missing = forbidding(
        tmp_path, error, PIDFD_SEND_SIGNAL, PIDFD_OPEN, PIDFD_GETFD, CLOSE_RANGE, STATX, MEMBARRIER
    )
    done = run([*missing, str(JOB), start_method], strategy)
    if start_method == "server":
        assert "the start method 'server' needs pidfds: Linux 5.3" in done.stderr
    else:
        assert done.stdout == "fine\n", done.stderr


@pytest.mark.parametrize(
    ("call", "text"),
    [(MEMFD_CREATE, "allow memfd_create in the seccomp profile"), (FALLOCATE, "cannot reserve")],
    ids=["memfd_create", "fallocate"],
)
def test_missing_required_system_call_is_named(strategy, call, text, tmp_path) -> None:
    done = run([*forbidding(tmp_path, EPERM, call), "-c", "import shmtensor; shmtensor.ones(1)"], strategy)
    assert text in done.stderr
    assert "EPERM" in done.stderr


def test_manager_without_memory_to_search_begins_no_other_session(tmp_path) -> None:
    """Regression: a link in /proc that could not be read for lack of memory counted as absent."""
    session = str(st.stats()["session"])
    attach = "import shmtensor as st; print(st.attach('ones').numpy().sum())"
    st.publish("ones", st.ones(10))
    os.kill(manager_pid(session), signal.SIGKILL)
    short = [*forbidding(tmp_path, ENOMEM, READLINKAT), "-c", attach]
    assert "ENOMEM" in run_command(short, timeout=100, env={"SHMTENSOR_SESSION": session}).stderr
    st.gc()  # this process brings the session's memory
    assert output(run_python(attach, env={"SHMTENSOR_SESSION": session})) == "10.0\n"
    st.unpublish("ones")


@SOME_METHODS
def test_session_works_without_proc(strategy, start_method) -> None:
    hide = 'mount -t tmpfs tmpfs /proc && exec "$0" "$@"'
    done = run([*with_own_mounts(hide), sys.executable, str(JOB), start_method], strategy)
    if start_method == "server":
        assert "the start method 'server' needs /proc, which is not mounted here" in done.stderr
    else:
        assert done.stdout == "fine\n", done.stderr


@SOME_METHODS
def test_session_works_on_readonly_file_system(strategy, start_method) -> None:
    """Only /dev/shm is writable; a home and a folder for temporary files do not exist."""
    chroot = 'PATH=$PATH:/usr/sbin:/sbin exec chroot /mnt "$0" "$@"'  # users' PATH may lack sbin
    lock = f"mount --rbind / /mnt && mount -o remount,ro,bind /mnt && {chroot}"
    done = run([*with_own_mounts(lock), sys.executable, str(JOB), start_method], strategy)
    assert done.stdout == "fine\n", done.stderr


@SOME_METHODS
def test_session_works_with_little_address_space(strategy, start_method) -> None:
    limit = 'ulimit -v 4000000 && exec "$0" "$@"'
    done = run(["sh", "-c", limit, sys.executable, str(JOB), start_method], strategy)
    assert done.stdout == "fine\n", done.stderr


def test_package_without_its_manager(tmp_path) -> None:
    """So is a program that was frozen without the package's hook."""
    (package := tmp_path / "shmtensor").mkdir()
    for path in Path(st.__file__).parent.iterdir():
        if path.name != "shmtensor-manager":
            (package / path.name).symlink_to(path)
    code = "import shmtensor as st; st.ones(3)"
    done = run_command([sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert f"{package}/shmtensor-manager: No such file or directory (ENOENT); it is a part of" in done.stderr
    assert "freeze the program with its hook for PyInstaller" in done.stderr
