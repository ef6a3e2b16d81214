"""Counts system calls of a program and everything it starts, between marks that it sets itself.

A minimal tracer: strace is not installed everywhere, and its counts have no sections. A mark is `close(MARK +
n)`, which has no effect and which programs do not call otherwise.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections import Counter

MARK = 1_000_000

_TRACEME, _CONT, _SETOPTIONS, _SYSCALL, _GET_SYSCALL_INFO = 0, 7, 0x4200, 24, 0x420E
# TRACESYSGOOD, FORK, VFORK, CLONE, EXEC; and traced processes exit with the tracer.
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x100000
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_WALL = 0x40000000


class _Info(ctypes.Structure):
    """The part of struct ptrace_syscall_info for an entry; since Linux 5.3."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("ip", ctypes.c_uint64),
        ("sp", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
        ("rest", ctypes.c_uint64 * 8),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> bool:
    return _libc.ptrace(request, pid, address, data) >= 0


def count_system_calls(command: list[str], env: dict[str, str], timeout: float) -> dict[int, Counter[int]]:
    """Run a command; return for each mark the system calls made after it, of all processes and threads."""
    first = os.fork()
    if first == 0:
        _ptrace(_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            os.execve(command[0], command, env)
        finally:
            os._exit(127)
    os.waitpid(first, 0)
    assert _ptrace(_SETOPTIONS, first, 0, _OPTIONS), os.strerror(ctypes.get_errno())
    _ptrace(_SYSCALL, first)
    alive = {first}
    counts: dict[int, Counter[int]] = {}
    section: Counter[int] | None = None
    deadline = time.monotonic() + timeout
    code = None
    info = _Info()
    while alive:
        # Waits only for traced threads.
        pid, status = os.waitpid(-1, _WALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            alive.discard(pid)
            code = status if pid == first else code
            continue
        alive.add(pid)
        if time.monotonic() > deadline:
            for victim in alive:
                os.kill(victim, signal.SIGKILL)
        pass_on = os.WSTOPSIG(status)
        if pass_on == _SYSCALL_STOP:
            pass_on = 0
            size = ctypes.sizeof(info)
            if _libc.ptrace(_GET_SYSCALL_INFO, pid, size, ctypes.addressof(info)) > 0 and info.op == 1:
                if info.arguments[0] >= MARK and info.arguments[0] < MARK + 100:
                    section = counts.setdefault(info.arguments[0] - MARK, Counter())
                elif section is not None:
                    section[info.number] += 1
        elif pass_on in (signal.SIGTRAP, signal.SIGSTOP):
            pass_on = 0  # a fork, an exec, or the first stop of a forked process
        _ptrace(_SYSCALL, pid, 0, pass_on)
    assert code == 0, f"the traced program ended with status {code}"
    return counts
