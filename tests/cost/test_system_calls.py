"""Promise 1: a warm send costs no system call of its own."""

from __future__ import annotations

import sys

import pytest

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


FUTEX, GETCPU, SCHED_YIELD = 202, 309, 24  # x86-64
WAITS = {FUTEX, 204, GETCPU, SCHED_YIELD}


@pytest.mark.thorough
def test_round_trip_makes_no_system_call_but_to_wait(start_method, strategy, tmp_path) -> None:
    """Calls of both processes and the manager count, for bytes, one tensor, fresh ones and views."""
    program = write_program(tmp_path, PROGRAM)
    env = clean_environment(SHMTENSOR_SHARING_STRATEGY=strategy)
    counts = count_system_calls([sys.executable, str(program), start_method], env, timeout=100)
    for kind in (BYTES, SAME, FRESH, VIEWS):
        calls = counts[kind]
        assert calls[FUTEX] <= 8 * TRIPS, (kind, calls)
        # The interpreter's heap needs a varying number of calls; one call per message would be 400.
        assert sum(calls[number] for number in set(calls) - WAITS) < TRIPS / 10, (kind, calls)
