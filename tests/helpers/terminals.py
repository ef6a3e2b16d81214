"""A program on a terminal of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

from tests.helpers.children import clean_environment

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]")


class Terminal:
    """The other side of the terminal: what the program has printed, and the keys that it reads."""

    def __init__(self, *command: str, rows: int = 400, columns: int = 160, **env: str) -> None:
        self._side, program = pty.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.settings = termios.tcgetattr(program)
        self._program = program  # kept open: its settings are compared after the program's end
        self.printed = ""
        self.process = subprocess.Popen(
            [sys.executable, *command],
            env=clean_environment(
                **{"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows), **env}
            ),
            stdin=program,
            stdout=program,
            stderr=program,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # for Ctrl-C
        )

    def text(self) -> str:
        """Return what was printed, without control sequences."""
        return ESCAPES.sub("", self.printed)

    def is_restored(self) -> bool:
        """Return True if the settings are as at the beginning, and the first screen has its cursor."""
        shown = [self.printed.rfind(f"\x1b[?{number}") for number in ("1049h", "1049l", "25l", "25h")]
        return (
            termios.tcgetattr(self._program) == self.settings and shown[0] < shown[1] and shown[2] < shown[3]
        )

    def wait_for(self, pattern: str, timeout: float = 60) -> None:
        """Read until the text that follows the last match matches the pattern."""
        begin = len(self.printed)
        deadline = time.monotonic() + timeout
        while not re.search(pattern, ESCAPES.sub("", self.printed[begin:])):
            assert self._read(deadline - time.monotonic()), f"no {pattern!r} in {self.text()[-3000:]}"

    def press(self, keys: str) -> None:
        os.write(self._side, keys.encode())

    def end(self, timeout: float = 60) -> int:
        """Read until the program has ended; return its exit status."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            self._read(0.05)
            assert time.monotonic() < deadline, self.text()[-3000:]
        while self._read(0):
            pass
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._side], [], [], max(seconds, 0))
        if ready:
            self.printed += os.read(self._side, 1 << 16).decode(errors="replace")
        return bool(ready)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._side)
        os.close(self._program)


@contextlib.contextmanager
def terminal(*command: str, **options) -> Iterator[Terminal]:
    """Run a Python program on a terminal; kill it at the end."""
    made = Terminal(*command, **options)
    try:
        yield made
    finally:
        made.close()
