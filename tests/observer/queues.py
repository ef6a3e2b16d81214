"""Queues, read by the layout of docs/design/queues.md."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from tests.observer.files import ArenaFile, Block

MAGIC = b"stqueue1"
QUEUE = 2  # the kind of a block's tickets, in the upper byte of `contents`


@dataclass(frozen=True)
class QueueEnd:
    """The tail, or the head."""

    lock: int
    ring: int
    count: int


@dataclass(frozen=True)
class QueueBlock:
    """The first block of a queue."""

    arena: ArenaFile
    block: Block
    magic: bytes
    limit: int
    tail: QueueEnd
    head: QueueEnd
    shut_down: bool


def read_queue(fd: int, arena: ArenaFile, block: Block) -> QueueBlock | None:
    """Return a queue; None if the block has none."""
    if not block.live or block.contents >> 56 != QUEUE:
        return None
    content = os.pread(fd, 321, arena.data_at + block.offset)
    magic, limit = struct.unpack_from("<8sQ", content)
    ends = [QueueEnd(*struct.unpack_from("<IIQ", content, at)) for at in (64, 128)]
    return QueueBlock(arena, block, magic, limit, *ends, content[320] != 0)
