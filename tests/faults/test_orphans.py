"""Arenas whose owner is dead."""

from __future__ import annotations

import os

import shmtensor as st
from tests.helpers.children import running, wait_until
from tests.helpers.queues import take
from tests.observer.files import PART, ArenaFile


def send(queue) -> None:
    queue.put(st.full(1000, 5))


def join_and_wait(queue, go) -> None:
    st.empty(1)
    queue.put("joined")
    go.wait(60)


def test_unnoticed_orphan_arena_is_removed_at_next_death(ctx) -> None:
    """Regression: an arena whose last block was freed by a killed process kept its pages.

    A process that frees the last block of an orphan arena marks it in the freed map, which the manager reads.
    If the process was killed between the two steps, the manager found the block free and did not check the
    arena. So it checks every orphan arena after every death.
    """
    before = st.stats()["arenas"]
    queue, go = ctx.SimpleQueue(), ctx.Event()
    with running(ctx, send, queue):
        tensor = take(queue)
    assert st.stats()["arenas"] == before + 1
    path, arena = newest_arena()
    (block,) = arena.blocks
    fd = os.open(path, os.O_RDWR)
    for offset, word in ((arena.holders_at + 8 * block.number, 0), (PART + 32 * block.number, 1 << 32)):
        os.pwrite(fd, word.to_bytes(8, "little"), offset)  # the mark is missing
    os.close(fd)
    assert st.stats()["arenas"] == before + 1, "no process has noticed"
    with running(ctx, join_and_wait, queue, go) as other:
        assert take(queue) == "joined"
        other.kill()
    wait_until(lambda: st.stats()["arenas"] == before, what="the arena to be dropped")
    del tensor


def newest_arena() -> tuple[str, ArenaFile]:
    """Return the arena with the highest number that this process has open."""
    prefix = f"/memfd:shmtensor-{st.stats()['session']}-"
    found = {}
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        target = os.readlink(path) if os.path.islink(path) else ""
        if target.startswith(prefix) and "session (" not in target:
            found[int(target.removeprefix(prefix).split()[0])] = path
    path = found[max(found)]
    fd = os.open(path, os.O_RDONLY)
    arena = ArenaFile(fd)
    os.close(fd)
    return path, arena
