"""Messages that go to a worker and back, between marks; `test_system_calls.py` runs it.

Arguments: METHOD TRIPS MARK, of which MARK is the first mark.
"""

import contextlib
import gc
import os
import sys

import shmtensor as st
import shmtensor.multiprocessing as mp


def mark(number):
    with contextlib.suppress(OSError):
        os.close(number)


def echo(inbox, outbox):
    gc.disable()
    while (item := inbox.get()) is not None:
        outbox.put(item)


def main(method, trips, first_mark):
    context = mp.get_context(method)
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=echo, args=(inbox, outbox))
    process.start()
    tensor = st.full(100_000, 1.0)
    kinds = [
        lambda: bytes(64),
        lambda: tensor,
        lambda: st.full(100_000, 2.0),
        lambda: [tensor[::2], tensor[5:], st.full((3, 4), 1, "i2")],
    ]
    gc.disable()
    for kind in kinds * 2:  # warm
        for _ in range(20):
            inbox.put(kind())
            outbox.get()
    for n, kind in enumerate(kinds):
        mark(first_mark + n)
        for _ in range(trips):
            inbox.put(kind())
            outbox.get()
    mark(first_mark + len(kinds))
    inbox.put(None)
    process.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
