"""Ends of pipes, read by the layout of csrc/queue/pipe_end.hpp."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from tests.observer.files import ArenaFile, Block

MAGIC = b"spipend1"
PIPE_END = 6  # the kind of a block's tickets, in the upper byte of `contents`

QueueName = tuple[int, int, int]  # arena, block, generation


@dataclass(frozen=True)
class PipeEnd:
    """The block of an end."""

    arena: ArenaFile
    block: Block
    magic: bytes
    queues: list[QueueName]  # into which it puts messages, or from which it takes them


def read_pipe_end(fd: int, arena: ArenaFile, block: Block) -> PipeEnd | None:
    """Return an end; None if the block is none."""
    if not block.live or block.contents >> 56 != PIPE_END:
        return None
    magic, *records = struct.unpack("<8s8I", os.pread(fd, 40, arena.data_at + block.offset))
    queues = [
        (arena_number, number, generation)
        for number, arena_number, known, generation in (records[:4], records[4:])
        if known
    ]
    return PipeEnd(arena, block, magic, queues)
