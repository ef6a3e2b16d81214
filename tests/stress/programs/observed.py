"""A process with two tensors that it reports, and one in a message; then it executes orders.

`test_observer.py` runs it. Argument: FILE, to which it writes its report.
"""

import json
import mmap
import os
import sys
from multiprocessing.reduction import ForkingPickler

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from tests.observer.patterns import new_tag, pattern
from tests.torture.transports import new_letter

path = sys.argv[1]
letters = [new_letter(new_tag(i), 1000) for i in range(3)]
with _core.SendScope() as message:
    content = bytes(ForkingPickler.dumps(letters[2].tensor))
    message.delivered()
del letters[2]
queues, readers, ends = [], [], []


def report():
    storages = [letter.tensor.storage() for letter in letters] + [q._storage for q in queues]
    for end in ends:
        storages += [end._handle.storage(), end._read._storage, end._written._storage]
    held = [(storage.data_ptr(), storage.nbytes) for storage in storages]
    with open(path, "w") as file:
        json.dump({"holdings": held, "exact": True, "forked": False}, file)


report()
kept = []
print("ready", flush=True)
for line in sys.stdin:
    name = f"/proc/self/fd/{line.split()[1]}" if " " in line else ""
    if line.startswith("dup"):
        kept.append(os.dup(int(line.split()[1])))
    elif line.startswith("map"):
        with open(name, "r+b") as file:
            kept.append([mmap.mmap(file.fileno(), 4096) for _ in range(2)])
    elif line.startswith(("queue", "broadcast")):
        queues.append(st.Queue(10) if line.startswith("queue") else st.Broadcast(10))
        if line.startswith("broadcast"):
            readers.append(queues[0].reader())
        for i in range(3):
            queues[0].put((i, letters[0]))
    elif line.startswith("primitives"):
        queues += [st.Lock(), st.BoundedSemaphore(2)]
    elif line.startswith("pipe"):
        ends.extend(mp.Pipe())
    elif line.startswith("cache"):
        queues.append(st.SharedCache())
        for key in range(100):
            queues[0].get(key, lambda key=key: pattern(new_tag(key), 50))
    elif line.startswith("empty"):
        for held in letters, queues, readers, ends:
            held.clear()
        st.gc(older_than=0)
    elif line.startswith("omit one"):
        _letters_said, letters = letters, letters[:1]
    report()
    print("done", flush=True)
