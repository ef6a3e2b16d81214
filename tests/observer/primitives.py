"""Locks and semaphores, read by the layout of docs/design/locks.md."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from tests.observer.files import ArenaFile, Block

MAGIC = b"pmitive1"
PRIMITIVE = 4  # the kind of a block's tickets, in the upper byte of `contents`
LOCK, SEMAPHORE = 1, 2
_SHARES = 64


@dataclass(frozen=True)
class PrimitiveBlock:
    """The block of a primitive."""

    arena: ArenaFile
    block: Block
    magic: bytes
    owner: int | None  # the slot that has the lock, or the short one of a semaphore
    units: dict[int, int]  # of a semaphore, by slot


def read_primitive(fd: int, arena: ArenaFile, block: Block) -> PrimitiveBlock | None:
    """Return a primitive; None if the block has none."""
    if not block.live or block.contents >> 56 != PRIMITIVE:
        return None
    content = os.pread(fd, block.size, arena.data_at + block.offset)
    magic, kind, owner = struct.unpack_from("<8sB3xI", content)
    units = {}
    if kind == SEMAPHORE:
        for share in struct.unpack_from(f"<{(len(content) - _SHARES) // 8}Q", content, _SHARES):
            if count := share & 0xFFFF_FFFF:
                units[(share >> 32) - 1] = count
    elif kind != LOCK:
        owner = 0
    return PrimitiveBlock(arena, block, magic, (owner & 0xFFFF) - 1 if owner & 0xFFFF else None, units)
