"""Processes and the session files that they have open, as read from `/proc`."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass

MAP = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+)\s*(.*)")


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    access: str
    offset: int
    identity: tuple[int, int]
    path: str


def _stat(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(") ", 1)[1].split()
    except (OSError, IndexError):
        return None


def is_alive(pid: int) -> bool:
    """Return True if the process runs; a zombie does not."""
    fields = _stat(pid)
    return fields is not None and fields[0] not in "ZX"


def is_stopped(pid: int) -> bool:
    fields = _stat(pid)
    return fields is not None and fields[0] in "Tt"


def start_time(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def describe(pid: int) -> str:
    """Return state, parent, kernel wait channel and command of a process, to diagnose a hang."""
    texts = [" ".join((_stat(pid) or [])[:2])]
    for part in ("wchan", "cmdline", "stack"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{part}", "rb") as file:
            texts.append(file.read().replace(b"\0", b" ").decode())
    for thread in threads(pid) - {pid}:
        with contextlib.suppress(OSError):
            for part in ("stat", "wchan", "stack"):
                with open(f"/proc/{pid}/task/{thread}/{part}") as file:
                    texts.append(f"thread {thread}: {file.read()}")
    return ", ".join(texts)


def catches(pid: int, number: int) -> bool:
    """Return True if the process has a handler for this signal."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        if caught := re.search(r"^SigCgt:\s*(\w+)", file.read(), re.MULTILINE):
            return bool(int(caught[1], 16) >> (number - 1) & 1)
    return False


def threads(pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except OSError:
        return set()


def children(pid: int) -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found.update(map(int, file.read().split()))
    return found


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descriptors(pid: int) -> dict[int, str]:
    """Return number and target of each open descriptor."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found


def mappings(pid: int, part: str) -> list[Mapping]:
    """Return the mappings of files whose path contains `part`."""
    try:
        with open(f"/proc/{pid}/maps") as file:
            lines = [line for line in file.read().splitlines() if part in line]
    except OSError:
        return []
    found = []
    for line in lines:
        start, end, access, offset, major, minor, inode, path = MAP.match(line).groups()
        device = os.makedev(int(major, 16), int(minor, 16))
        identity = (device, int(inode))
        found.append(Mapping(int(start, 16), int(end, 16), access, int(offset, 16), identity, path))
    return found


def managers(session: str) -> list[int]:
    """Return the pids of the live managers of a session."""
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read().split(b"\0")
            if (
                arguments[0].endswith(b"shmtensor-manager")
                and session.encode() in arguments
                and is_alive(pid)
            ):
                found.append(pid)
    return found


def names(session: str) -> list[str]:
    return sorted(name for name in os.listdir("/dev/shm") if name.startswith(f"shmtensor-{session}"))


def has_socket(session: str) -> bool:
    with open("/proc/net/unix") as file:
        return f"@shmtensor-{session}" in file.read()


def open_files(session: str, pids: list[int]) -> dict[tuple[int, int], int]:
    """Open each file of the session that has a name or is open in one of the processes.

    The result is keyed by device and inode. The caller must close the descriptors soon: they keep the files.
    """
    places = [f"/dev/shm/{name}" for name in names(session)]
    for pid in pids:
        for number, target in descriptors(pid).items():
            if target.startswith(f"/memfd:shmtensor-{session}"):
                places.append(f"/proc/{pid}/fd/{number}")
    found: dict[tuple[int, int], int] = {}
    for place in places:
        try:
            fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        info = os.fstat(fd)
        if found.setdefault((info.st_dev, info.st_ino), fd) != fd:
            os.close(fd)
    return found
