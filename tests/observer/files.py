"""A session's files, read by the format of docs/design/blocks.md.

Bytes are read with `pread`, which allocates no pages and cannot raise SIGBUS.
"""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import dataclass

import numpy as np

KIB = 1024
PART = 64 * KIB
PLANES = 16
ARENA_FORMAT = (b"starena1", 4)  # magic and version
SESSION_FORMAT = (b"stsessa1", 7)
SLOTS = 1024
HEAD = 128 * KIB  # of a session's memory: header and slots, in pieces of 64 KiB
BUCKETS = 1 << 16
GROUPS = PART + BUCKETS * 8  # where a transit table's groups begin
DRAINING = 2  # the lower half of such a block's word: not live, epoch 1
TABLE = GROUPS + (1 << 20) * 32


def align_up(value: int, step: int) -> int:
    return -(-value // step) * step


def words(fd: int, offset: int, count: int) -> np.ndarray:
    """Return `count` words of 8 bytes of a file; bytes past its end are zero."""
    content = os.pread(fd, count * 8, offset)
    return np.frombuffer(content.ljust(count * 8, b"\0"), "<u8")


@dataclass(frozen=True)
class Slot:
    number: int
    taken: bool
    life: int
    pid: int
    start_time: int


@dataclass(frozen=True)
class Group:
    """Live tickets of one sender for one generation of one block."""

    sender: int
    arena: int
    block: int
    generation: int
    tickets: int
    mark: int = 0  # the second of the last send, or what ends the tickets (`TicketGroup`)


class SessionFile:
    """The memory that all processes of a session map."""

    def __init__(self, fd: int) -> None:
        magic, self.version, self.manager = struct.unpack_from("<8sII", head := os.pread(fd, HEAD, 0))
        if (magic, self.version) != SESSION_FORMAT:
            raise ValueError(f"not a session's memory of a known format: {magic!r} {self.version}")
        self.manager_starts, self.deaths = struct.unpack_from("<IQ", head, 52)
        self.slots = {}
        for number in range(SLOTS):
            status, life, pid, _parent, start = struct.unpack_from("<IIiiQ", head, 128 + number * 64)
            if life:
                self.slots[number] = Slot(number, status != 0, life, pid, start)
        self.groups = [group for number in self.slots for group in self._groups(fd, number)]

    @staticmethod
    def _groups(fd: int, sender: int) -> list[Group]:
        table = HEAD + sender * TABLE
        (count,) = struct.unpack("<I", os.pread(fd, 4, table).ljust(4, b"\0"))
        rows = words(fd, table + GROUPS, count * 4).reshape(-1, 4)
        found = []
        for word, block, mark, _next in rows[(rows[:, 0] & 0xFFFFFFFF) != 0].tolist():
            tickets = (word & 0xFFFFFFFF).bit_count()
            found.append(
                Group(sender, block >> 32, block & 0xFFFFFFFF, mark >> 32, tickets, mark & 0xFFFFFFFF)
            )
        return found


@dataclass(frozen=True)
class Block:
    number: int
    generation: int
    live: bool
    offset: int
    size: int
    holders: frozenset[int]
    contents: int  # which ticket records it has; 0: none


class ArenaFile:
    """One arena: header, block records, holder planes, and where its data has pages."""

    def __init__(self, fd: int) -> None:
        head = os.pread(fd, 4096, 0)
        magic, self.version, self.strategy = struct.unpack_from("<8sII", head)
        if (magic, self.version) != ARENA_FORMAT:
            raise ValueError(f"not an arena of a known format: {magic!r} {self.version}")
        self.session = "{:016x}{:016x}".format(*struct.unpack_from("<QQ", head, 16))
        self.number, self.owner, self.owner_life, self.max_blocks = struct.unpack_from("<IIII", head, 32)
        self.capacity, self.planes = struct.unpack_from("<II", head, 128)
        self.committed, self.orphaned = struct.unpack_from("<QI", head, 144)
        records = align_up(self.max_blocks * 32, PART)
        freed = align_up(self.max_blocks // 8 + self.max_blocks // 512, PART)
        plane = align_up(self.max_blocks * 8, PART)
        self.holders_at = PART + records + freed
        self.plane_size = plane
        self.data_at = align_up(self.holders_at + 2 * PLANES * plane, 2 * KIB * KIB)
        info = os.fstat(fd)
        self.identity = (info.st_dev, info.st_ino)
        self.bytes = info.st_blocks * 512
        self.data_pages = self._has_data(fd)
        self.draining: list[int] = []
        self.blocks = self._blocks(fd)

    def _has_data(self, fd: int) -> bool:
        """Return True if the data segment has pages."""
        try:
            os.lseek(fd, self.data_at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        return True

    def _blocks(self, fd: int) -> list[Block]:
        """Return the records that are live or have a holder bit."""
        records = words(fd, PART, self.capacity * 4).reshape(-1, 4)
        held: dict[int, set[int]] = {}
        for plane in range(PLANES):
            if not self.planes >> plane & 1:
                continue
            bits = words(fd, self.holders_at + plane * self.plane_size, self.capacity)
            for number in np.flatnonzero(bits).tolist():
                value = int(bits[number])
                slots = {plane * 64 + i for i in range(64) if value >> i & 1}
                held.setdefault(number, set()).update(slots)
        live = np.flatnonzero(records[:, 0] & np.uint64(1)).tolist()
        self.draining = np.flatnonzero((records[:, 0] & np.uint64(0xFFFFFFFF)) == DRAINING).tolist()
        found = []
        for number in sorted({*live, *held}):
            word, offset, size, contents = records[number].tolist()
            holders = frozenset(held.get(number, ()))
            found.append(Block(number, word >> 32, bool(word & 1), offset, size, holders, contents))
        return found
