"""Promise 1: a warm send costs no system call of its own."""

from __future__ import annotations

import sys

from tests.helpers.children import clean_environment, write_program
from tests.helpers.system_calls import MARK, count_system_calls

TRIPS = 200
BYTES, SAME, FRESH, VIEWS, END = range(5)

PROGRAM = f"""
    import gc, os, sys
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    def mark(n):
        try:
            os.close({MARK} + n)
        except OSError:
            pass

    def echo(inbox, outbox):
        gc.disable()
        while (item := inbox.get()) is not None:
            outbox.put(item)

    def main(method):
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
                inbox.put(kind()); outbox.get()
        for n, kind in enumerate(kinds):
            mark(n)
            for _ in range({TRIPS}):
                inbox.put(kind()); outbox.get()
        mark({END})
        inbox.put(None)
        process.join()

    if __name__ == "__main__":
        main(sys.argv[1])
    """


def test_system_calls_do_not_depend_on_tensor_size(start_method, strategy, tmp_path) -> None:
    """Calls of both processes and the manager count, for round trips of one tensor, fresh ones and views."""
    program = write_program(tmp_path, PROGRAM)
    env = clean_environment(SHMTENSOR_SHARING_STRATEGY=strategy)
    counts = count_system_calls([sys.executable, str(program), start_method], env, timeout=100)
    plain = counts[BYTES]
    assert sum(plain.values()) >= 4 * TRIPS, "reads and writes were not seen"
    for kind in (SAME, FRESH, VIEWS):
        # Waits for a semaphore and the interpreter's heap need a varying number of calls; one call per
        # message would add 200.
        more = {number: count - plain[number] for number, count in counts[kind].items()}
        assert all(extra < TRIPS / 10 for extra in more.values()), (kind, more, plain)
