"""The manager inherits no scheduling settings or limits of the process that starts it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.children import manager_pids, run_python, wait_until

PROGRAM = """
    import contextlib, os, resource, signal, sys
    from tests.helpers.children import manager_pid

    GIB = 1 << 30
    os.umask(0o777)
    os.nice(7)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    LIMITS = {resource.RLIMIT_AS: 40 * GIB, resource.RLIMIT_CPU: 600, resource.RLIMIT_FSIZE: 20 * GIB}
    for limit, value in LIMITS.items():
        resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

    import shmtensor as st
    st.ones(3)
    session = st.stats()["session"]
    manager = manager_pid(session)
    status = dict(line.split(":", 1) for line in open(f"/proc/{manager}/status"))
    print(session)
    print(os.sched_getscheduler(manager), os.getpriority(os.PRIO_PROCESS, manager))
    print(len(os.sched_getaffinity(manager)))
    print(*(status[name].strip() for name in ("Umask", "SigBlk")))
    print(open(f"/proc/{manager}/oom_score_adj").read().strip())
    print(os.readlink(f"/proc/{manager}/cwd"))
    for limit in LIMITS:
        print(*resource.prlimit(manager, limit))
"""


@pytest.mark.thorough
def test_manager_keeps_no_setting_of_the_first_process() -> None:
    """Regression: started by a pinned, limited real-time loop, it did not answer others, or rejected them."""
    done = run_python(PROGRAM, env={"PYTHONPATH": str(Path(__file__).parents[2])})
    assert done.returncode == 0, done.stderr
    session, scheduling, cpus, masks, score, folder, *limits = done.stdout.splitlines()
    wait_until(lambda: not manager_pids(session), what="the manager to end")
    privileged = os.geteuid() == 0
    # Without privileges a process may only lower its priority.
    assert scheduling == f"{os.SCHED_OTHER} {0 if privileged else 7}"
    assert int(cpus) == len(os.sched_getaffinity(0))
    assert masks == "0077 0000000000000000"
    assert score == "0"
    assert folder == "/"
    for line in limits:
        soft, hard = line.split()
        assert soft == hard, limits
