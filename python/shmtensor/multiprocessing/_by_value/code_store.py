"""The store of functions and classes that were sent by value: one file in memory for each sending process.

Workers of the start method ``"server"`` inherit the descriptors of these files, and pass them to their own.
"""

from __future__ import annotations

import os
import threading

# Of one pickle: the file's name, offset, size. A plain tuple, since it is part of every call.
Location = tuple[bytes, int, int]


class CodeStore:
    """The file of this process, and the files of the processes it descends from. Threads: any."""

    def __init__(self) -> None:
        self._files: dict[bytes, int] = {}
        self.reset_in_child()

    def add(self, content: bytes) -> Location:
        """Append a pickle to the file of this process; return its location."""
        with self._lock:
            file = self._own_file()
            start = self._end
            self._end += len(content)
        written = 0
        while written < len(content):
            written += os.pwrite(file, memoryview(content)[written:], start + written)
        return self.name, start, len(content)

    def read(self, location: Location) -> bytes | None:
        """Return the pickle at a location, or None if this process does not have the file."""
        name, offset, size = location
        file = self._files.get(name)
        if file is None:
            return None
        content = b""
        while len(content) < size:
            content += os.pread(file, size - len(content), offset + len(content))
        return content

    def files(self) -> dict[bytes, int]:
        """Return all files, including that of this process, for a worker."""
        with self._lock:
            self._own_file()
            return self._files.copy()

    def descends_from(self, name: bytes) -> bool:
        """Return True if this process descends from the process whose file has that name."""
        return name != self.name and name in self._files

    def take_over(self, files: dict[bytes, int]) -> None:
        """Add the files of the process that started this one."""
        self._files.update(files)

    def _own_file(self) -> int:
        if self.name not in self._files:
            self._files[self.name] = os.memfd_create("shmtensor-functions", os.MFD_CLOEXEC)
        return self._files[self.name]

    def reset_in_child(self) -> None:
        """Start a new file: a forked child must not append to its parent's."""
        self._lock = threading.Lock()  # another thread of the parent may have held the old one
        self.name = os.urandom(8)
        self._end = 0


code_store = CodeStore()
