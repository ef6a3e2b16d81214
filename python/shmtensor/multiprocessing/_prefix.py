"""Standard output with the rank before each line."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["prefix_output"]


class _Prefixed(io.RawIOBase):
    """Writes whole lines, each by one call, so that lines of several workers do not mix."""

    def __init__(self, fd: int, prefix: bytes) -> None:
        self._fd = fd
        self._prefix = prefix
        self._rest = b""
        self._within_line = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: ReadableBuffer, /) -> int:
        content = bytes(data)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            self._write_out(line + b"\n")
            self._within_line = False
        return len(content)

    def flush(self) -> None:
        if self._rest and not self.closed:
            self._write_out(self._rest)
            self._within_line = True
            self._rest = b""

    def _write_out(self, text: bytes) -> None:
        rest = text if self._within_line else self._prefix + text
        while rest:
            rest = rest[os.write(self._fd, rest) :]


def prefix_output(prefix: str) -> None:
    """Have `sys.stdout` put `prefix` before each line.

    What C code and programs that the worker runs write to the descriptor passes unchanged.
    """
    stream: Any = sys.stdout
    stream.flush()
    raw: Any = _Prefixed(stream.fileno(), prefix.encode(stream.encoding, stream.errors))
    sys.stdout = io.TextIOWrapper(raw, stream.encoding, stream.errors, newline="\n", write_through=True)
