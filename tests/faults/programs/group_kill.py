"""A process group that is in one of several phases when it is killed.

`test_group_kill.py` runs it. Argument: PHASE.
"""

import sys
import threading
import time

import shmtensor.multiprocessing as mp


def child(inbox, outbox):
    while True:
        tensor = inbox.get()
        outbox.put([tensor, tensor + 1])


def main(phase):
    import shmtensor as st

    context = mp.get_context("fork")
    tensor = st.ones(100_000)
    print(st.stats()["session"], flush=True)
    inbox, outbox = context.SimpleQueue(), context.Queue()
    if phase == "allocating":
        while True:
            st.empty(200_000)
    if phase == "sending":
        outbox.put(tensor)
        threading.Thread(target=lambda: [outbox.get() for _ in iter(int, 1)], daemon=True).start()
        while True:
            outbox.put([st.ones(1000), tensor])
    if phase == "in flight":
        for _ in range(20):
            inbox.put(tensor)
        time.sleep(60)
    if phase == "starting":
        while True:
            process = context.Process(target=time.sleep, args=(0,))
            process.start()
            process.join()
    workers = [context.Process(target=child, args=(inbox, outbox)) for _ in range(2)]
    for worker in workers:
        worker.start()
    if phase == "growing":
        kept = []
        while sum(t.nbytes for t in kept) < 1 << 28:
            kept.append(st.ones(1 << 17))
            inbox.put(kept[-1])
        time.sleep(60)
    while True:  # "in use"
        inbox.put(tensor)
        outbox.get()


main(sys.argv[1])
