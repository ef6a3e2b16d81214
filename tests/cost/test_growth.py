"""Promise 2: descriptors and mappings grow with processes, not with tensors."""

from __future__ import annotations

import pytest

from tests.helpers.children import output, run_beside, run_program, write_program


@pytest.mark.thorough
def test_live_tensors_need_no_descriptor_each(start_method, strategy) -> None:
    done = run_beside(__file__, "growth", start_method, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
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
    output(run_program(write_program(tmp_path, SMALL_RESULTS), start_method, timeout=60))


MANY_DTYPES = """
    import gc
    import sys
    import numpy as np
    import shmtensor as st

    def read(first, end):
        for number in range(first, end):
            array = np.zeros(1, [(f"field {number}", "i4")])
            assert st.SharedList([array])[0].dtype == array.dtype
        gc.collect()
        return sys.getallocatedblocks()

    before = read(0, 1500)
    assert read(1500, 2500) < before + 1000, "each dtype that was read is kept"
    """


def test_dtypes_of_items_are_forgotten(tmp_path) -> None:
    """Regression: a process kept each dtype that it had read from a shared list or dict."""
    output(run_program(write_program(tmp_path, MANY_DTYPES)))
