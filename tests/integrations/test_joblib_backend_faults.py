"""The backend "shmtensor" of joblib, with killed workers, interrupted programs, and forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.helpers.children import (
    clean_environment,
    importing_tests,
    is_running,
    run_command,
    run_python,
    wait_until,
    write_program,
)
from tests.helpers.namespaces import without_dev_shm

START = """
    import os
    import signal
    import time

    from joblib import Parallel, delayed

    import shmtensor as st
    from tests.helpers.joblib_programs import pids, use_backend

    use_backend()


    def kill(i):
        if i == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return i
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return run_python(START + program, timeout=110, env=importing_tests())


@pytest.mark.parametrize("managed", [False, True])
def test_killed_worker_is_named_and_the_next_call_works(managed) -> None:
    done = run(f"""
    from contextlib import nullcontext

    parallel = Parallel(batch_size=1)
    with parallel if {managed} else nullcontext():
        for _ in range(3):
            try:
                parallel(delayed(kill)(i) for i in range(4))
            except st.multiprocessing.WorkerLost as error:
                print(error)
            assert parallel(delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]
    """)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert "the result of kill is lost" in line
        assert "was killed by SIGKILL" in line


def test_idle_worker_that_is_killed_is_replaced() -> None:
    done = run("""
    first = pids()
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    second = pids()
    assert len(second) == 2 and not first & second
    """)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


INTERRUPTED = """
    def report():
        os.write(1, f"{os.getpid()}\\n".encode())
        time.sleep(100)


    try:
        Parallel(3, batch_size=1)(delayed(report)() for _ in range(2))  # one worker is idle
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(Parallel()(delayed(abs)(-i) for i in range(3)))
    """


def test_keyboard_interrupt_reaches_the_caller_only() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(START + INTERRUPTED)],
        env=clean_environment(**importing_tests()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        workers = [int(program.stdout.readline()) for _ in range(2)]
        os.killpg(program.pid, signal.SIGINT)
        out, error = program.communicate(timeout=60)
    except BaseException:
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate()
        raise
    assert out == "interrupted\n[0, 1, 2]\n"
    assert not error
    wait_until(lambda: not any(map(is_running, workers)), 10, "the workers to end")


def test_forked_child_has_workers_of_its_own() -> None:
    done = run("""
    first = pids()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert not first & pids()
            status = 0
        finally:
            st.uninstall("joblib")
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert pids() == first
    """)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.mark.parametrize("end", ["pass", "raise SystemExit", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_workers_end_with_the_program(end) -> None:
    done = run(f"""
    print(*pids(), flush=True)
    {end}
    """)
    workers = [int(pid) for pid in done.stdout.split()]
    assert len(workers) == 2
    assert not done.stderr or "KILL" in end  # Python reports the semaphores that its pools have
    wait_until(lambda: not any(map(is_running, workers)), 10, "the workers to end")


def test_backend_needs_no_dev_shm(tmp_path) -> None:
    """joblib's own backends are serial then."""
    program = write_program(
        tmp_path,
        START.replace(
            "from joblib", "import warnings\n\n    warnings.simplefilter('ignore')\n    from joblib"
        )
        + """
    assert len(pids()) == 2
    assert Parallel(n_jobs=-1)(delayed(abs)(-i) for i in range(3)) == [0, 1, 2]
    """,
    )
    (folder := tmp_path / "dev").mkdir()
    command = [*without_dev_shm(folder), sys.executable, str(program)]
    done = run_command(command, timeout=110, env=importing_tests())
    assert done.returncode == 0, done.stderr
