"""Rules for an idle session. Each rule yields one sentence per violation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.observer import broadcasts as broadcast_layout
from tests.observer import caches as cache_layout
from tests.observer import pipes as pipe_layout
from tests.observer import primitives as primitive_layout
from tests.observer import queues as queue_layout
from tests.observer.files import ArenaFile, Block
from tests.observer.snapshot import Holding, Member, Snapshot, name


def judge(snapshot: Snapshot) -> list[str]:
    """Return all problems of a session; none if it is consistent."""
    rules = [
        patterns, lost_blocks, dead_bits, overlapping_blocks, tickets, holdings, descriptors, mappings,
        queues, broadcasts, caches, primitives, pipes, draining_blocks,
    ]  # fmt: skip
    if snapshot.allow_data_loss:
        rules.remove(tickets)  # their arenas may be lost with owner and manager
        rules.remove(pipes)
    return [problem for rule in rules for problem in rule(snapshot)]


def judge_empty(snapshot: Snapshot) -> list[str]:
    """Return the problems of a session without holders after `gc`."""
    problems = judge(snapshot)
    if snapshot.session.groups and not snapshot.may_keep_tickets:
        problems.append(f"tickets are live after gc: {snapshot.session.groups}")
    kept = {(group.arena, group.block) for group in snapshot.session.groups if snapshot.may_keep_tickets}
    for arena in snapshot.arenas.values():
        if any((arena.number, block.number) in kept for block in arena.blocks):
            continue
        problems.extend(f"{name(arena, block)} still exists" for block in arena.blocks)
        if arena.data_pages:
            problems.append(f"pages of arena {arena.number} were not released (owner: slot {arena.owner})")
        if arena.orphaned:
            users = [
                m.pid
                for m in snapshot.members.values()
                if any(x.identity == arena.identity for x in m.mappings)
            ]
            problems.append(f"arena {arena.number} of a dead owner still exists; mapped by {users}")
    return problems


def _blocks(snapshot: Snapshot) -> Iterator[tuple[ArenaFile, Block]]:
    for arena in snapshot.arenas.values():
        for block in arena.blocks:
            yield arena, block


def patterns(snapshot: Snapshot) -> Iterator[str]:
    """Every live block has its pattern, except one that a thread was filling when its process forked."""
    ticketed = {(group.arena, group.block) for group in snapshot.session.groups}
    for arena, block, why in snapshot.broken:
        holders = [
            snapshot.members[snapshot.session.slots[slot].pid] for slot in block.holders & snapshot.alive
        ]
        ghost = holders and not any(member.exact for member in holders)
        if not ghost or (arena.number, block.number) in ticketed:
            yield f"{name(arena, block)}: {why}"


def lost_blocks(snapshot: Snapshot) -> Iterator[str]:
    """A live block has a living holder or a live ticket."""
    ticketed = {(group.arena, group.block, group.generation) for group in snapshot.session.groups}
    for arena, block in _blocks(snapshot):
        if not block.live or block.holders & snapshot.alive:
            continue
        if (arena.number, block.number, block.generation) not in ticketed:
            yield f"{name(arena, block)} is lost: live without holder (holders {sorted(block.holders)})"


def dead_bits(snapshot: Snapshot) -> Iterator[str]:
    """Holder bits are set only for slots with a live process, and only on live blocks."""
    for arena, block in _blocks(snapshot):
        if dead := block.holders - snapshot.alive:
            yield f"{name(arena, block)} has bits of slots {sorted(dead)} without a live process"
        if not block.live and block.holders & snapshot.alive:
            yield f"{name(arena, block)} is free but has bits of slots {sorted(block.holders)}"


def overlapping_blocks(snapshot: Snapshot) -> Iterator[str]:
    """No two live blocks overlap, and all are inside their arena."""
    for arena in snapshot.arenas.values():
        end, before = 0, None
        for block in sorted((b for b in arena.blocks if b.live), key=lambda b: b.offset):
            if block.offset + block.size > arena.committed:
                yield f"{name(arena, block)} ends outside of the arena"
            if before is not None and block.offset < end:
                yield f"{name(arena, block)} and {name(arena, before)} overlap"
            end, before = block.offset + block.size, block


def tickets(snapshot: Snapshot) -> Iterator[str]:
    """The generation of a live ticket is that of its block, or an earlier one if its sender was killed."""
    for group in snapshot.session.groups:
        arena = snapshot.arenas.get(group.arena)
        if arena is None:
            yield f"a ticket for block {group.block} of arena {group.arena}, which does not exist"
            continue
        block = next((b for b in arena.blocks if b.number == group.block), None)
        if block is not None and group.generation > block.generation:
            yield f"a ticket for generation {group.generation} of {name(arena, block)}"


def queues(snapshot: Snapshot) -> Iterator[str]:
    """While no process puts or takes, no queue is locked, or has more messages than its limit."""
    for queue in snapshot.queues:
        text, tail, head = f"the queue in {name(queue.arena, queue.block)}", queue.tail, queue.head
        if queue.magic != queue_layout.MAGIC:
            yield f"{text} begins with {queue.magic!r}"
        if tail.lock or head.lock:
            yield f"{text} is locked: tail {tail.lock:#x}, head {head.lock:#x}"
        if tail.count < head.count or tail.ring < head.ring:
            yield f"{text} has more messages taken than put: {tail}, {head}"
        if queue.limit and tail.count - head.count > queue.limit:
            yield f"{text} has {tail.count - head.count} messages, and its limit is {queue.limit}"


def broadcasts(snapshot: Snapshot) -> Iterator[str]:
    """While no process puts or gets, no broadcast is locked, and all readers are of live processes."""
    for broadcast in snapshot.broadcasts:
        text, count = f"the broadcast in {name(broadcast.arena, broadcast.block)}", broadcast.tail.count
        if broadcast.magic != broadcast_layout.MAGIC:
            yield f"{text} begins with {broadcast.magic!r}"
        if broadcast.tail.lock:
            yield f"{text} is locked: {broadcast.tail.lock:#x}"
        for reader in broadcast.readers:
            if reader.slot not in snapshot.alive:
                yield f"{text} has a reader of slot {reader.slot}, without a live process"
            if reader.next is None or reader.next > count:
                yield f"{text} has {count} messages, and the next one of a reader is {reader.next}"


def caches(snapshot: Snapshot) -> Iterator[str]:
    """While no process uses a cache, it is not locked, none builds, and it has the items that it counts."""
    for cache in snapshot.caches:
        text, found = f"the cache in {name(cache.arena, cache.block)}", cache.found()
        if cache.magic != cache_layout.MAGIC:
            yield f"{text} begins with {cache.magic!r}"
        if cache.lock or cache.change:
            yield f"{text} is locked: {cache.lock:#x}, with the change {cache.change:#x}"
        if cache.builders:
            yield f"{text} has items that slots {cache.builders} build"
        if cache.all_tables and (len(found), sum(found)) != (cache.items, cache.bytes):
            counted = f"{cache.items}, {cache.bytes}"
            yield f"{text} has {len(found)} items of {sum(found)} bytes, and counts {counted}"


def pipes(snapshot: Snapshot) -> Iterator[str]:
    """A queue of a pipe lives as long as an end, and is shut down if and only if the other end has ended."""
    queues = {
        (queue.arena.number, queue.block.number, queue.block.generation): queue for queue in snapshot.queues
    }
    for end in snapshot.pipe_ends:
        if end.magic != pipe_layout.MAGIC:
            yield f"the end of a pipe in {name(end.arena, end.block)} begins with {end.magic!r}"
    for queue, ends in Counter(queue for end in snapshot.pipe_ends for queue in end.queues).items():
        if queue not in queues:
            yield f"the queue of a pipe in arena, block, generation {queue} was freed before its ends"
        elif queues[queue].shut_down != (ends == 1):
            state = "shut down" if queues[queue].shut_down else "open"
            yield f"the queue of a pipe in arena, block, generation {queue} is {state}, and has {ends} ends"


def primitives(snapshot: Snapshot) -> Iterator[str]:
    """While no process uses a primitive, none has a lock, or a unit of a semaphore."""
    for primitive in snapshot.primitives:
        text = f"the primitive in {name(primitive.arena, primitive.block)}"
        if primitive.magic != primitive_layout.MAGIC:
            yield f"{text} begins with {primitive.magic!r}"
        if primitive.owner is not None:
            yield f"{text} is locked by slot {primitive.owner}"
        if primitive.units:
            yield f"{text} has units of slots {primitive.units}"


def draining_blocks(snapshot: Snapshot) -> Iterator[str]:
    """The manager has freed every draining block."""
    for arena in snapshot.arenas.values():
        if arena.draining:
            yield f"blocks {arena.draining} of arena {arena.number} are still draining"


def _find(snapshot: Snapshot, member: Member, holding: Holding) -> tuple[ArenaFile, Block] | None:
    for mapping in member.mappings:
        if not mapping.start <= holding.address < mapping.end:
            continue
        for arena in snapshot.arenas.values():
            if arena.identity != mapping.identity:
                continue
            offset = holding.address - mapping.start + mapping.offset - arena.data_at
            for block in arena.blocks:
                if block.live and block.offset == offset and block.size == holding.nbytes:
                    return arena, block
    return None


def _is_of_lost_file(snapshot: Snapshot, member: Member, holding: Holding) -> bool:
    """Return True if the bytes are mapped from a file that no process has open any more: one that is short
    of descriptors keeps none, and the others were killed together with the manager."""
    identities = {arena.identity for arena in snapshot.arenas.values()}
    mapped = [m for m in member.mappings if m.start <= holding.address < m.end]
    return bool(mapped) and all(mapping.identity not in identities for mapping in mapped)


def holdings(snapshot: Snapshot) -> Iterator[str]:
    """A process has its holder bit on exactly the blocks that it reports."""
    for slot in sorted(snapshot.alive):
        member = snapshot.members[snapshot.session.slots[slot].pid]
        reported_blocks = set()
        for holding in member.holdings:
            found = _find(snapshot, member, holding)
            if found is None:
                if not (snapshot.allow_data_loss and _is_of_lost_file(snapshot, member, holding)):
                    where = f"{holding.nbytes} bytes at {holding.address:#x}"
                    yield f"slot {slot} uses {where}: no live block there"
                continue
            arena, block = found
            reported_blocks.add((arena.number, block.number))
            if slot not in block.holders:
                yield f"{name(arena, block)} is used by slot {slot}, which has no holder bit"
        for arena, block in _blocks(snapshot):
            if member.exact and slot in block.holders and (arena.number, block.number) not in reported_blocks:
                what = f"{block.size} bytes, contents {block.contents:#x}, pid {member.pid}"
                yield f"{name(arena, block)} has a bit of slot {slot}, which does not use it ({what})"


def _tidy(snapshot: Snapshot) -> Iterator[Member]:
    """Yield the members that are not forked children. A forked child forgets, but keeps open, descriptors
    that a thread of its parent was opening at the fork."""
    return (member for member in snapshot.members.values() if not member.forked)


def descriptors(snapshot: Snapshot) -> Iterator[str]:
    """A process has each file of the session open at most once."""
    for member in _tidy(snapshot):
        for target, count in Counter(member.descriptors.values()).items():
            if count > 1:
                yield f"process {member.pid} has {count} descriptors of {target}"


def mappings(snapshot: Snapshot) -> Iterator[str]:
    """No part of a file is mapped twice with the same access.

    A process that was short of address space may have a window, and now all of the data.
    """
    for member in _tidy(snapshot):
        seen = Counter((m.identity, m.offset, m.end - m.start, m.access) for m in member.mappings)
        for (identity, offset, size, access), count in seen.items():
            if count > 1:
                where = f"{size} bytes of inode {identity[1]} at {offset:#x}"
                yield f"process {member.pid} has {count} mappings {access} of {where}"
