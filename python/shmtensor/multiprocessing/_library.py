"""Where functions and classes lie that were sent by value: one file in memory for each process they are from.

Workers that a process starts by the start method server get the file's descriptor, and hand it on.
"""

from __future__ import annotations

import os
import threading

__all__ = ["Library", "Place", "library"]


# A piece: the library's name, the offset in it, the size. A plain tuple: it travels with every call.
Place = tuple[bytes, int, int]


class Library:
    """The file of this process, and those of the processes that this one descends from. Threads: any."""

    def __init__(self) -> None:
        self._files: dict[bytes, int] = {}
        self.start_anew()

    def add(self, content: bytes) -> Place:
        """Append a piece."""
        with self._lock:
            file = self._own_file()
            start = self._end
            self._end += len(content)
        written = 0
        while written < len(content):
            written += os.pwrite(file, memoryview(content)[written:], start + written)
        return self.name, start, len(content)

    def read(self, place: Place) -> bytes | None:
        """Return a piece; None if this process does not have the library."""
        name, offset, size = place
        file = self._files.get(name)
        if file is None:
            return None
        content = b""
        while len(content) < size:
            content += os.pread(file, size - len(content), offset + len(content))
        return content

    def files(self) -> dict[bytes, int]:
        """Return all files, the own one included, for a worker."""
        with self._lock:
            self._own_file()
            return self._files.copy()

    def descends_from(self, name: bytes) -> bool:
        """Return True if this process descends from the process with the library of that name."""
        return name != self.name and name in self._files

    def take_over(self, files: dict[bytes, int]) -> None:
        """Have the files of the process that started this one."""
        self._files.update(files)

    def _own_file(self) -> int:
        if self.name not in self._files:
            self._files[self.name] = os.memfd_create("shmtensor-functions", os.MFD_CLOEXEC)
        return self._files[self.name]

    def start_anew(self) -> None:
        """After a fork: what this process adds goes into a file of its own."""
        self._lock = threading.Lock()  # a thread of the parent's may have had it
        self.name = os.urandom(8)
        self._end = 0


library = Library()
