"""A process with many settings, and those of its manager; `test_manager_starts_neutral.py` runs it."""

import contextlib
import os
import resource
import signal
from pathlib import Path

import shmtensor as st
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
Path("/proc/self/oom_score_adj").write_text("500")
with contextlib.suppress(PermissionError):
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

st.ones(3)
session = st.stats()["session"]
manager = manager_pid(session)
folder = Path(f"/proc/{manager}")
status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
print(session)
print(os.sched_getscheduler(manager), os.getpriority(os.PRIO_PROCESS, manager))
print(len(os.sched_getaffinity(manager)))
print(*(status[name].strip() for name in ("Umask", "SigBlk")))
print((folder / "oom_score_adj").read_text().strip())
print(os.readlink(folder / "cwd"))
for limit in LIMITS:
    print(*resource.prlimit(manager, limit))
