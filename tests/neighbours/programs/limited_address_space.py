"""Processes under RLIMIT_AS.

`test_limited_address_space.py` runs it. Arguments: FUNCTION and its arguments.
"""

import contextlib
import gc
import mmap
import multiprocessing
import os
import random
import resource
import sys
import time
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.threads import run_together

MIB = 1 << 20


# A small limit makes small arenas, a sixteenth of it.
def limit(mib):
    resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))


def await_arenas(count):
    wait_until(lambda: st.stats()["arenas"] == count, what=lambda: f"{count} arenas: {st.stats()}")


# A consumer that limits itself, and producers without a limit, whose arenas reserve the machine's memory.
def produce(outbox, done, mib, count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        outbox.put(st.full(int(rng.integers(1, mib * MIB)), seed, np.uint8))
    done.get()


def end(processes, done):
    for _ in processes:
        done.put(None)
    for process in processes:
        process.join()
        assert process.exitcode == 0


@contextlib.contextmanager
def producers(number, mib, count):
    """Yield their queue."""
    context = multiprocessing.get_context("spawn")  # whose queues need no arena of this process
    outbox, done = context.SimpleQueue(), context.SimpleQueue()
    arguments = [(outbox, done, mib, count, seed) for seed in range(number)]
    processes = [context.Process(target=produce, args=each) for each in arguments]
    for process in processes:
        process.start()
    yield outbox
    end(processes, done)


def growing_sizes(collect="no"):
    """Each size needs an arena of its own; those of the sizes before stayed mapped."""
    limit(2 << 10)
    for mib in range(130, 230, 10):
        tensor = st.empty(mib * MIB, dtype="uint8")
        tensor.numpy()[-1] = 7
        del tensor
        if collect == "collecting":
            st.gc()
    await_arenas(1)
    assert st.stats()["blocks"] == 0


def arena_of(mib, value):
    return st.full(mib * MIB, value, np.uint8)


def refused(message, kind, text):
    try:
        ForkingPickler.loads(message)
    except kind as error:
        assert text in str(error)
    else:
        raise AssertionError("it was received")


def used_arenas():
    """The arena of a tensor that is held, sent or published is not retired."""
    limit(3 << 10)
    held = arena_of(200, 1)
    sent = arena_of(210, 2)
    message = bytes(ForkingPickler.dumps(sent))
    published = arena_of(220, 3)
    st.publish("name", published)
    del sent, published
    gc.collect()
    for mib in range(230, 280, 10):
        del_me = arena_of(mib, 9)
        del del_me
        st.gc(older_than=1000)
    await_arenas(4)
    assert (held.numpy() == 1).all()
    assert (ForkingPickler.loads(message).numpy() == 2).all()
    assert (st.attach("name").numpy() == 3).all()
    del held
    st.unpublish("name")
    gc.collect()
    st.gc(older_than=0)
    await_arenas(1)
    refused(message, st.StaleHandleError, "")


def peers():
    """A child maps the arena when its owner retires it, and unmaps it when it next meets another."""

    def child(inbox, outbox):
        for _ in range(2):
            tensor = inbox.get()
            outbox.put(int(tensor.numpy()[-1]))
            del tensor
            outbox.put(Path("/proc/self/maps").read_text().count("shmtensor"))
        inbox.get()

    limit(4 << 10)
    context = multiprocessing.get_context("fork")
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=child, args=(inbox, outbox))
    process.start()
    mapped = []
    for mib, value in (300, 5), (320, 6):
        tensor = arena_of(mib, value)
        inbox.put(tensor)
        del tensor
        assert outbox.get() == value
        mapped.append(outbox.get())
    assert mapped[0] == mapped[1], mapped
    inbox.put(None)
    process.join()


def threads():
    """Some allocate while others retire."""
    limit(4 << 10)
    stop = time.monotonic() + 3

    def work(seed):
        rng = random.Random(seed)
        while time.monotonic() < stop:
            value = rng.randrange(256)
            size = rng.choice([10, 100_000, 3 * MIB, 258 * MIB + rng.randrange(20) * MIB])
            try:
                tensor = st.empty(size, dtype="uint8")
            except st.OutOfSharedMemory:
                continue
            tensor.numpy()[:10] = value
            tensor.numpy()[-10:] = value
            if rng.random() < 0.3:
                tensor = ForkingPickler.loads(ForkingPickler.dumps(tensor))
            if rng.random() < 0.05 and os.fork() == 0:
                os._exit(0 if tensor.numpy()[-1] == value else 1)
            assert tensor.numpy()[0] == value and tensor.numpy()[-1] == value

    def collect():
        while time.monotonic() < stop:
            st.gc()

    run_together(*(partial(work, seed) for seed in range(3)), collect)
    with contextlib.suppress(ChildProcessError):
        while True:
            assert os.wait()[1] == 0
    gc.collect()
    st.gc(older_than=0)
    assert st.stats()["blocks"] == 0, st.stats()


def windows(outbox):
    """Regression: it was refused 24 bytes, since it mapped the whole reserve of its peer's arena."""
    limit(2 << 10)
    held = [outbox.get() for _ in range(20)]
    assert all((t.numpy() == v).all() for t in held for v in t.numpy()[:1]), held
    held[0].numpy()[:] = 77
    assert (ForkingPickler.loads(ForkingPickler.dumps(held[0])).numpy() == 77).all()
    if os.fork() == 0:
        os._exit(0 if (held[0].numpy() == 77).all() else 1)
    assert os.wait()[1] == 0
    own = st.ones(MIB)
    assert own.numpy().sum() == MIB


def many_peers(outbox):
    """Each peer's tables take a third of a gibibyte of address space: unused ones are unmapped."""
    limit(2 << 10)
    seen = [int(outbox.get().numpy()[-1]) for _ in range(2 * 8)]
    assert sorted(seen) == sorted(2 * list(range(8))), seen


def reserves(outbox):
    """Regression: the reserves of twelve arenas filled it: the program's own allocations failed."""
    gib = 1 << 30
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    reserve = min(max(1 << (memory - 1).bit_length(), gib), 256 * gib)
    limit((16 * reserve + 16 * gib) // MIB)
    held = [outbox.get() for _ in range(12)]
    assert sorted(int(t.numpy()[0]) for t in held) == list(range(12)), held
    mmap.mmap(-1, 6 * reserve, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()


def refusal(outbox):
    """It names the limit, and loses nothing."""
    message = outbox._reader.recv_bytes()
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * MIB, hard))
    refused(message, OSError, "RLIMIT_AS")
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    assert ForkingPickler.loads(message).numpy()[-1] == 0


def limited_manager():
    """It mapped 306 MB for each other process, and refused the eleventh."""

    def first(ready, done):
        limit(3 << 10)
        _mine = st.ones(1000)
        ready.put("ready")
        done.get()

    def other(number, ready, done):
        ready.put(st.full(1000, number))
        done.get()

    os.environ["SHMTENSOR_SESSION"] = f"limited {os.getpid()}"
    context = multiprocessing.get_context("fork")
    ready, done = context.SimpleQueue(), context.SimpleQueue()
    processes = [context.Process(target=first, args=(ready, done))]
    processes[0].start()
    assert ready.get() == "ready"
    for number in range(40):
        processes.append(context.Process(target=other, args=(number, ready, done)))
        processes[-1].start()
    got = [ready.get() for _ in range(40)]
    assert sorted(int(tensor.numpy()[5]) for tensor in got) == list(range(40))
    end(processes, done)


CONSUMERS = {windows: (1, 20, 20), many_peers: (8, 1, 2), reserves: (12, 1, 1), refusal: (1, 1, 1)}

if __name__ == "__main__":
    function = globals()[sys.argv[1]]
    if function in CONSUMERS:
        with producers(*CONSUMERS[function]) as outbox:
            function(outbox)
    else:
        function(*sys.argv[2:])
