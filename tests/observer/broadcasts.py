"""Broadcasts, read by the layout of docs/design/queues.md."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from tests.observer.files import ArenaFile, Block
from tests.observer.queues import QueueEnd

MAGIC = b"stbcast1"
BROADCAST = 3  # the kind of a block's tickets, in the upper byte of `contents`
_READERS, _READS = 320, 1 << 31


@dataclass(frozen=True)
class ReaderRecord:
    """A reader."""

    slot: int
    next: int | None  # the number of its next message; None while it joins


@dataclass(frozen=True)
class BroadcastBlock:
    """The block of a broadcast."""

    arena: ArenaFile
    block: Block
    magic: bytes
    limit: int
    tail: QueueEnd
    readers: list[ReaderRecord]


def read_broadcast(fd: int, arena: ArenaFile, block: Block) -> BroadcastBlock | None:
    """Return a broadcast; None if the block has none."""
    if not block.live or block.contents >> 56 != BROADCAST:
        return None
    at = arena.data_at + block.offset
    magic, limit = struct.unpack("<8sQ", os.pread(fd, 16, at))
    tail = QueueEnd(*struct.unpack("<IIQ", os.pread(fd, 16, at + 64)))
    (used,) = struct.unpack("<I", os.pread(fd, 4, at + 260))
    records = struct.iter_unpack("<I4xQ48x", os.pread(fd, 64 * min(used, 256), at + _READERS))
    readers = [
        ReaderRecord((owner & 0xFFFF) - 1, following if owner & _READS else None)
        for owner, following in records
        if owner
    ]
    return BroadcastBlock(arena, block, magic, limit, tail, readers)
