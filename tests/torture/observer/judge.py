"""What is wrong with a session at rest. Each rule says one sentence for each thing that breaks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.torture.observer.files import ArenaFile, Block
from tests.torture.observer.picture import Holding, Member, Picture, name


def judge(picture: Picture) -> list[str]:
    """All problems; none when the session is as it should be."""
    rules = [patterns, lost_blocks, dead_bits, two_hands, tickets, holdings, descriptors, mappings]
    if picture.harsh:
        rules.remove(tickets)  # their arenas may have died with owner and manager
    return [problem for rule in rules for problem in rule(picture)]


def judge_empty(picture: Picture) -> list[str]:
    """Problems of a session in which nobody holds anything and everything was collected."""
    problems = judge(picture)
    if picture.session.groups:
        problems.append(f"tickets are live after gc: {picture.session.groups}")
    for arena in picture.arenas.values():
        problems.extend(f"{name(arena, block)} is still there" for block in arena.blocks)
        if arena.data_pages:
            problems.append(f"pages of arena {arena.number} were not given back (owner: slot {arena.owner})")
        if arena.orphaned:
            users = [
                m.pid
                for m in picture.members.values()
                if any(x.identity == arena.identity for x in m.mappings)
            ]
            problems.append(f"arena {arena.number} of a dead owner is still there; mapped by {users}")
    return problems


def _blocks(picture: Picture) -> Iterator[tuple[ArenaFile, Block]]:
    for arena in picture.arenas.values():
        for block in arena.blocks:
            yield arena, block


def patterns(picture: Picture) -> Iterator[str]:
    """Every live block is filled, but for one that a thread was filling when its process was forked."""
    ticketed = {(group.arena, group.block) for group in picture.session.groups}
    for arena, block, why in picture.broken:
        holders = [picture.members[picture.session.slots[slot].pid] for slot in block.holders & picture.alive]
        ghost = holders and not any(member.exact for member in holders)
        if not ghost or (arena.number, block.number) in ticketed:
            yield f"{name(arena, block)}: {why}"


def lost_blocks(picture: Picture) -> Iterator[str]:
    """A live block has a living holder or a live ticket."""
    ticketed = {(group.arena, group.block, group.generation) for group in picture.session.groups}
    for arena, block in _blocks(picture):
        if not block.live or block.holders & picture.alive:
            continue
        if (arena.number, block.number, block.generation) not in ticketed:
            yield f"{name(arena, block)} is lost: live, with nobody (holders {sorted(block.holders)})"


def dead_bits(picture: Picture) -> Iterator[str]:
    """Holder bits are those of living slots, on live blocks."""
    for arena, block in _blocks(picture):
        if dead := block.holders - picture.alive:
            yield f"{name(arena, block)} has bits of slots {sorted(dead)}, which nobody lives in"
        if not block.live and block.holders & picture.alive:
            yield f"{name(arena, block)} is free and has bits of slots {sorted(block.holders)}"


def two_hands(picture: Picture) -> Iterator[str]:
    """No two live blocks share bytes, and all lie in their arena."""
    for arena in picture.arenas.values():
        end, before = 0, None
        for block in sorted((b for b in arena.blocks if b.live), key=lambda b: b.offset):
            if block.offset + block.size > arena.committed:
                yield f"{name(arena, block)} ends outside of the arena"
            if before is not None and block.offset < end:
                yield f"{name(arena, block)} and {name(arena, before)} share bytes: two hands"
            end, before = block.offset + block.size, block


def tickets(picture: Picture) -> Iterator[str]:
    """A live ticket is of a generation that its block has, or had if its sender was killed in the middle."""
    for group in picture.session.groups:
        arena = picture.arenas.get(group.arena)
        if arena is None:
            yield f"a ticket for block {group.block} of arena {group.arena}, which is not there"
            continue
        block = next((b for b in arena.blocks if b.number == group.block), None)
        if block is not None and group.generation > block.generation:
            yield f"a ticket for generation {group.generation} of {name(arena, block)}"


def _find(picture: Picture, member: Member, holding: Holding) -> tuple[ArenaFile, Block] | None:
    for mapping in member.mappings:
        if not mapping.start <= holding.address < mapping.end:
            continue
        for arena in picture.arenas.values():
            if arena.identity != mapping.identity:
                continue
            offset = holding.address - mapping.start + mapping.offset - arena.data_at
            for block in arena.blocks:
                if block.live and block.offset == offset and block.size == holding.nbytes:
                    return arena, block
    return None


def holdings(picture: Picture) -> Iterator[str]:
    """A process has its bit on what it says it has, and on nothing else."""
    for slot in sorted(picture.alive):
        member = picture.members[picture.session.slots[slot].pid]
        said = set()
        for holding in member.holdings:
            found = _find(picture, member, holding)
            if found is None:
                yield f"slot {slot} uses {holding.nbytes} bytes at {holding.address:#x}: no live block there"
                continue
            arena, block = found
            said.add((arena.number, block.number))
            if slot not in block.holders:
                yield f"{name(arena, block)} is used by slot {slot}, which has no bit"
        for arena, block in _blocks(picture):
            if member.exact and slot in block.holders and (arena.number, block.number) not in said:
                yield f"{name(arena, block)} has a bit of slot {slot}, which does not use it"


def _tidy(picture: Picture) -> Iterator[Member]:
    """Not a forked child: a session of which it inherited nothing, and what a thread that it does not
    have was just opening, is forgotten in it and stays open, once for each fork."""
    return (member for member in picture.members.values() if not member.forked)


def descriptors(picture: Picture) -> Iterator[str]:
    """A process has each file of the session open once at most."""
    for member in _tidy(picture):
        for target, count in Counter(member.descriptors.values()).items():
            if count > 1:
                yield f"process {member.pid} has {count} descriptors of {target}"


def mappings(picture: Picture) -> Iterator[str]:
    """No part of a file is mapped twice with the same access."""
    for member in _tidy(picture):
        seen = Counter((m.identity, m.offset, m.access) for m in member.mappings)
        for (identity, offset, access), count in seen.items():
            if count > 1:
                where = f"inode {identity[1]} at {offset:#x}"
                yield f"process {member.pid} has {count} mappings {access} of {where}"
