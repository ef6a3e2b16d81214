"""Promise 9: a /dev/shm of 64 MB, as containers have it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.children import program_beside, run_command, write_program
from tests.helpers.namespaces import with_own_mounts

DEFAULT = """
    import os
    import numpy as np
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    def check(tensor, answers):
        answers.put(int(tensor.numpy().sum()))

    if __name__ == "__main__":
        space = os.statvfs("/dev/shm")
        assert space.f_blocks * space.f_frsize == 64 << 20, space
        tensor = st.full(200 << 20, 1, np.uint8)
        context = mp.get_context("spawn")
        answers = context.SimpleQueue()
        process = context.Process(target=check, args=(tensor, answers))
        process.start(); process.join()
        print(answers.get(), [name for name in os.listdir("/dev/shm") if "shmtensor" in name])
    """

TABLE = """
    import numpy as np
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    mp.set_sharing_strategy("file_system")
    idle = st.Storage(40 << 20)
    del idle
    with open("/dev/shm/filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
    kept = [st.Storage(64) for _ in range(3000)]
    print("fine")
    """


def run_with_small_shm(program) -> subprocess.CompletedProcess[str]:
    mount = with_own_mounts('mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$0" "$1"')
    return run_command([*mount, sys.executable, str(program)], timeout=100)


def test_default_strategy_works_with_full_dev_shm(tmp_path) -> None:
    done = run_with_small_shm(write_program(tmp_path, DEFAULT))
    assert done.stdout == f"{200 << 20} []\n", done


@pytest.mark.thorough
def test_named_strategy_reports_full_dev_shm_and_continues() -> None:
    done = run_with_small_shm(program_beside(__file__, "shm_full"))
    assert done.stdout == "fine\n", done


def test_growing_block_table_takes_space_of_idle_memory(tmp_path) -> None:
    """Regression: it raised with 40 MiB idle in the same arena, which only allocations of bytes released."""
    done = run_with_small_shm(write_program(tmp_path, TABLE))
    assert done.stdout == "fine\n", done
