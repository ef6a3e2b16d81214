"""Programs for which some system calls fail, as under a seccomp profile or an emulator."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.helpers.children import write_program

# Puts a seccomp filter over itself and what it starts: these system calls fail with this error.
_FORBID = """
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


def forbidding(folder: Path, error: int, *calls: int) -> list[str]:
    """Return a command that runs a Python program, for which these system calls fail with this error."""
    (folder / "forbid").mkdir()
    program = write_program(folder / "forbid", _FORBID)
    return [sys.executable, str(program), str(error), ",".join(map(str, calls)), sys.executable]
