"""A program with many live tensors; `test_growth.py` runs it. Argument: METHOD."""

import os
import resource
import sys

import shmtensor as st
import shmtensor.multiprocessing as mp

COUNT = 100_000
STEP = 1000


def usage():
    with open("/proc/self/maps") as maps:
        mappings = sum("shmtensor-" in line for line in maps)
    return len(os.listdir("/proc/self/fd")), mappings


def keep(inbox, outbox):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = []
    while len(held) < COUNT:
        held += inbox.get()
        outbox.put(usage() if len(held) % (10 * STEP) == 0 else None)
    outbox.put((len({t.storage_offset() or t.data_ptr() for t in held}), held[12_345].tolist()))
    inbox.get()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    context = mp.get_context(sys.argv[1])
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    queues = st.stats()["blocks"]
    process = context.Process(target=keep, args=(inbox, outbox))
    process.start()
    held, here, there = [], set(), set()
    for first in range(0, COUNT, STEP):
        new = [st.full(8, first + i) for i in range(STEP)]
        held += new
        inbox.put(new)
        answer = outbox.get()
        if answer is not None:
            here.add(usage())
            there.add(answer)
    print(sorted(here), sorted(there))
    assert len(here) == len(there) == 1, "flat after the first ten thousand"
    assert max(fd for fd, _ in here | there) < 32
    assert outbox.get() == (COUNT, [12_345] * 8)
    stats = st.stats()
    assert stats["blocks"] == COUNT + queues and stats["in_flight"] == 0, stats
    assert stats["descriptors"] < 8 and stats["mappings"] < 16, stats
    inbox.put(None)
    process.join()
    assert process.exitcode == 0
    held.clear()
    del new
    assert st.stats()["blocks"] == queues, st.stats()
    print("fine")
