"""Promise 2: descriptors and mappings grow with processes, not with tensors."""

from __future__ import annotations

import pytest

from tests.helpers.children import run_program, write_program

PROGRAM = """
    import os, resource, sys
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
    """


@pytest.mark.thorough
def test_live_tensors_need_no_descriptor_each(start_method, strategy, tmp_path) -> None:
    program = write_program(tmp_path, PROGRAM)
    done = run_program(program, start_method, env={"SHMTENSOR_SHARING_STRATEGY": strategy}, timeout=100)
    assert done.stdout.endswith("fine\n"), done


SMALL_RESULTS = """
    import sys
    from concurrent.futures import ProcessPoolExecutor
    import shmtensor.multiprocessing as mp

    def mappings():
        with open("/proc/self/maps") as maps:
            return sum("shmtensor-" in line for line in maps)

    if __name__ == "__main__":
        with ProcessPoolExecutor(1, mp_context=mp.get_context(sys.argv[1])) as executor:
            counts = [executor.submit(mappings).result() for _ in range(3)]
        print(counts)
        assert counts[0] == counts[-1], "the first result needs shared memory of the worker"
    """


def test_small_results_need_no_arena_of_their_worker(start_method, tmp_path) -> None:
    done = run_program(write_program(tmp_path, SMALL_RESULTS), start_method, timeout=60)
    assert done.returncode == 0, done
