"""joblib and loky with `st.install`: equal results, shared writes, copies made once, deaths."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import pytest

from tests.helpers.children import (
    assert_equal_output,
    importing_tests,
    run_command,
    run_program,
    write_program,
)
from tests.integrations.programs import PROGRAMS, succeed

BACKENDS = ["loky", "multiprocessing", "shmtensor"]


@pytest.mark.parametrize("mode", ["r", "c"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_equal_with_and_without_the_integration(backend, mode) -> None:
    assert_equal_output(PROGRAMS / "joblib_values.py", backend, mode, timeout=110)


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_of_workers_are_seen_and_nothing_is_left(backend) -> None:
    succeed("joblib_shared.py", backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_argument_is_copied_once_in_a_call(backend) -> None:
    succeed("joblib_copies.py", backend)


LARGE_RESULTS = """
    import logging
    import sys

    import numpy as np
    from joblib import Parallel, delayed


    def result():
        logging.basicConfig()
        return np.ones(8_000_000)


    if __name__ == "__main__":
        import shmtensor as st

        st.install("joblib")
        for array in Parallel(2, backend=sys.argv[1])(delayed(result)() for _ in range(2)):
            assert array.sum() == 8_000_000
        assert st.stats()["blocks"] == st.stats()["queues"], "only those of an idle executor"
"""


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_result_that_has_no_room_in_shared_memory_is_logged(tmp_path, backend) -> None:
    program = write_program(tmp_path, LARGE_RESULTS)
    env = importing_tests() | {"SHMTENSOR_MAX_BYTES": str(4 << 20)}
    done = run_program(program, backend, env=env, timeout=110)
    assert done.returncode == 0, done.stderr
    logged = "WARNING:shmtensor:joblib sends a result of 64000000 bytes without shared memory: "
    assert done.stderr.count(logged) == 2, done.stderr


# A pool of multiprocessing hangs, with or without us, if a worker is killed while it has the lock of a queue.
@pytest.mark.parametrize(
    ("backend", "instant"),
    [
        *itertools.product(["loky", "shmtensor"], ["rebuild", "run", "reduce"]),
        ("multiprocessing", "run"),
    ],
)
def test_killed_workers_leave_nothing(backend, instant) -> None:
    errors = {
        "loky": "TerminatedWorkerError",
        "shmtensor": "WorkerLost",
        "multiprocessing": "TimeoutError",
    }
    assert succeed("joblib_deaths.py", backend, instant) == f"{errors[backend]}\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_arguments_of_killed_worker_are_released(method) -> None:
    succeed("joblib_killed_worker.py", method)


def test_loky_itself() -> None:
    succeed("loky_shared.py")
    assert_equal_output(PROGRAMS / "array_values.py", "loky", "loky", timeout=110)
    assert_equal_output(PROGRAMS / "loky_errors.py", timeout=110)


def test_loky_keeps_workers_that_have_touched_much_shared_memory() -> None:
    done = run_program(PROGRAMS / "loky_memory.py", timeout=110)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["loky", "shmtensor"])
def test_scikit_learn(backend) -> None:
    assert_equal_output(PROGRAMS / "joblib_sklearn.py", backend, timeout=110)


def test_example_of_the_guide(tmp_path) -> None:
    page = Path(__file__).parents[2] / "docs" / "guide" / "with-joblib.md"
    (code,) = re.findall(r"^```py\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    done = run_program(write_program(tmp_path, code + "print(out[81].item())\n"))
    assert done.stdout == "9.0\n", done


def test_measurement_runs() -> None:
    command = [sys.executable, "-m", "bench", "joblib", "--quick", "--rounds", "1"]
    assert "empty" in run_command(command, timeout=110).stdout
