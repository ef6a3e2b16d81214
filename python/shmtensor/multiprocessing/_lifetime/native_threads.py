"""Threads that code in C, C++ or Rust has started in this process, and forks.

A forked child has only the thread that forked. A library whose pool of threads is running then waits in the
child for threads that do not exist. Some libraries, OpenBLAS among them, end their threads before a fork and
start others when they are needed. jemalloc, which pyarrow and polars contain, starts its thread again in the
child.
"""

from __future__ import annotations

import glob
import os
import threading
import time
import warnings
from contextlib import suppress

# A thread that was joined is listed for a moment. Counted, and not timed: a process that lacks processor time
# looks less often, too.
_MOST_LOOKS = 100
_POLL_INTERVAL = 0.001  # in seconds
_JEMALLOC = b"jemalloc_bg_thd\n"  # how jemalloc names its thread


def other_threads_run(*, may_fork: bool) -> bool:
    """Return True if threads other than the main one run, of Python or native.

    With `may_fork`, those that end before a fork do not count. This is tried.
    """
    if threading.active_count() > 1:
        return True
    if not _is_only_thread() and may_fork:
        end_threads_of_libraries()
    for _ in range(_MOST_LOOKS):
        if _is_only_thread():
            return False
        time.sleep(_POLL_INTERVAL)
    return True


def end_threads_of_libraries() -> None:
    """Fork once, since OpenBLAS ends its threads before a fork and restarts them when they are needed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python and JAX warn of a fork with threads; this child runs nothing
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    with suppress(ChildProcessError):  # the program ignores SIGCHLD, or waits for all children
        os.waitpid(pid, 0)


def _is_only_thread() -> bool:
    names = []
    for path in glob.iglob("/proc/self/task/*/comm"):  # none where /proc is not mounted
        with suppress(OSError), open(path, "rb") as file:  # else the thread has ended
            names.append(file.read())
    return len(names) - names.count(_JEMALLOC) <= 1
