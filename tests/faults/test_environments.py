"""Systems that lack a feature: sessions work without it, or an error names it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers.children import run_command, write_program
from tests.helpers.namespaces import with_own_mounts

JOB = """
    import sys, time
    import numpy as np
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    def work(inbox, outbox):
        for _ in range(3):
            tensor = inbox.get()
            tensor += 1
            outbox.put([tensor, st.full(1000, 7)])

    if __name__ == "__main__":
        context = mp.get_context(sys.argv[1])
        inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
        process = context.Process(target=work, args=(inbox, outbox))
        process.start()
        tensor = st.zeros(1 << 20)
        for turn in range(1, 4):
            inbox.put(tensor)
            back, other = outbox.get()
            assert float(tensor.numpy().sum()) == turn * (1 << 20)
            assert back.storage() is tensor.storage()
            assert other.tolist() == [7] * 1000
        process.join(60)
        assert process.exitcode == 0
        del back, other, tensor
        deadline = time.monotonic() + 20
        while st.stats()["blocks"]:
            assert time.monotonic() < deadline, st.stats()
            time.sleep(0.01)
        print("fine")
"""

# Installs a seccomp filter for itself and its children: these system calls fail with this error.
FORBID = """
    import ctypes, os, struct, sys
    error, numbers, command = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    filters = [(0x20, 0, 0, 0)]  # load the number of the call
    for number in numbers:
        filters += [(0x15, 0, 1, int(number)), (0x06, 0, 0, 0x00050000 | error)]
    filters.append((0x06, 0, 0, 0x7FFF0000))  # allow
    program = b"".join(struct.pack("<HBBI", *one) for one in filters)
    class Program(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("filters", ctypes.c_char_p)]
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    given = Program(len(filters), program)
    assert libc.prctl(22, 2, ctypes.byref(given), 0, 0) == 0, os.strerror(ctypes.get_errno())
    os.execv(command[0], command)
"""
ENOSYS, EPERM = 38, 1
# Numbers on x86-64 and on arm64 differ below 424.
X86 = os.uname().machine == "x86_64"
MEMFD_CREATE = 319 if X86 else 279
FALLOCATE = 285 if X86 else 47
STATX = 332 if X86 else 291
MEMBARRIER = 324 if X86 else 283
PIDFD_SEND_SIGNAL, PIDFD_OPEN, CLOSE_RANGE, PIDFD_GETFD = 424, 434, 436, 438

SOME_METHODS = pytest.mark.parametrize("start_method", ["spawn", "server"])


def run(command, strategy) -> subprocess.CompletedProcess[str]:
    return run_command(command, timeout=100, env={"SHMTENSOR_SHARING_STRATEGY": strategy})


def forbidding(folder, error, *calls) -> list[str]:
    (folder / "forbid").mkdir()
    program = write_program(folder / "forbid", FORBID)
    return [sys.executable, str(program), str(error), ",".join(map(str, calls)), sys.executable]


@pytest.mark.parametrize("error", [ENOSYS, EPERM])
def test_session_works_without_optional_system_calls(strategy, start_method, error, tmp_path) -> None:
    """Without pidfds, close_range and statx, other calls are used."""
    missing = forbidding(
        tmp_path, error, PIDFD_SEND_SIGNAL, PIDFD_OPEN, PIDFD_GETFD, CLOSE_RANGE, STATX, MEMBARRIER
    )
    done = run([*missing, str(write_program(tmp_path, JOB)), start_method], strategy)
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


@SOME_METHODS
def test_session_works_without_proc(strategy, start_method, tmp_path) -> None:
    program = str(write_program(tmp_path, JOB))
    hide = 'mount -t tmpfs tmpfs /proc && exec "$0" "$@"'
    done = run([*with_own_mounts(hide), sys.executable, program, start_method], strategy)
    if start_method == "server":
        assert "the start method 'server' needs /proc, which is not mounted here" in done.stderr
    else:
        assert done.stdout == "fine\n", done.stderr


@SOME_METHODS
def test_session_works_on_readonly_file_system(strategy, start_method, tmp_path) -> None:
    """Only /dev/shm is writable; a home and a folder for temporary files do not exist."""
    program = str(write_program(tmp_path, JOB))
    chroot = 'PATH=$PATH:/usr/sbin:/sbin exec chroot /mnt "$0" "$@"'  # users' PATH may lack sbin
    lock = f"mount --rbind / /mnt && mount -o remount,ro,bind /mnt && {chroot}"
    done = run([*with_own_mounts(lock), sys.executable, program, start_method], strategy)
    assert done.stdout == "fine\n", done.stderr


@SOME_METHODS
def test_session_works_with_little_address_space(strategy, start_method, tmp_path) -> None:
    program = str(write_program(tmp_path, JOB))
    limit = 'ulimit -v 4000000 && exec "$0" "$@"'
    done = run(["sh", "-c", limit, sys.executable, program, start_method], strategy)
    assert done.stdout == "fine\n", done.stderr
