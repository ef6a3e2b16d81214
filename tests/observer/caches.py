"""Caches, read by the layout of csrc/queue/cache_layout.hpp."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.observer.files import ArenaFile, Block

MAGIC = b"stcache1"
CACHE = 5  # the kind of a block's tickets, in the upper byte of `contents`
_BUILDS, _RECORDS, _PLACES = 1280, 17664, 25344  # offsets in the first block
_FIRST, _PLACE = 64, 320  # places in the first block; bytes of a place


@dataclass(frozen=True)
class CacheBlock:
    """The first block of a cache."""

    arena: ArenaFile
    block: Block
    magic: bytes
    lock: int
    items: int
    bytes: int
    change: int  # that was begun
    builders: list[int]  # slots
    tables: list[bytes]  # the places of each table that could be read
    all_tables: bool

    def found(self) -> list[int]:
        """Return the bytes of each item that is in a table."""
        return [
            struct.unpack_from("<Q", table, at + 248)[0]
            for table in self.tables
            for at in range(0, len(table), _PLACE)
            if struct.unpack_from("<Q", table, at + 256)[0] % 2
        ]


def read_cache(
    fd: int, arena: ArenaFile, block: Block, arenas: Mapping[int, tuple[int, ArenaFile]]
) -> CacheBlock | None:
    """Return a cache; None if the block has none. `arenas` are all of the session, by number."""
    if not block.live or block.contents >> 56 != CACHE:
        return None
    content = os.pread(fd, block.size, arena.data_at + block.offset)
    magic, _, count = struct.unpack_from("<8sQI", content)
    lock, changes = struct.unpack_from("<I4xQ", content, 64)
    total = struct.unpack_from("<2Q", content, 88)[changes % 2]
    items = struct.unpack_from("<2Q", content, 128)[changes % 2]
    (change,) = struct.unpack_from("<Q", content, 144)
    owners = [owner for (owner,) in struct.iter_unpack("<I60x", content[_BUILDS:_RECORDS])]
    tables = [content[_PLACES : _PLACES + _FIRST * _PLACE], *_further(content, count, arenas)]
    builders = [owner - 1 for owner in owners if owner]
    return CacheBlock(arena, block, magic, lock, items, total, change, builders, tables, len(tables) == count)


def _further(content: bytes, count: int, arenas: Mapping[int, tuple[int, ArenaFile]]) -> Iterator[bytes]:
    """Yield the places of the tables after the first one, which are in blocks of their own."""
    for number in range(1, count):
        (place,) = struct.unpack_from("<Q", content, _RECORDS + number * _PLACE)
        fd, arena = arenas.get(place >> 32, (-1, None))
        found = [one for one in arena.blocks if one.number == place & 0xFFFF_FFFF] if arena else []
        for block in found:
            yield os.pread(fd, (_FIRST << number) * _PLACE, arena.data_at + block.offset)
