"""A parent with workers, and what they start, that ends in one of several ways.

`test_parent_death.py` runs it. Arguments: FILE METHOD KIND THREAD; the pids are written to FILE.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import shmtensor.multiprocessing as mp


def report_pid(path):
    # Whole lines, from many processes.
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"%d\n" % os.getpid())
    os.close(fd)


def sleep_on(path):
    report_pid(path)
    while True:
        time.sleep(100)


def work(rank, path, method, kind):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if kind == "process":
        mp.get_context(method).Process(target=sleep_on, args=(path,)).start()
    elif kind == "fork":
        if os.fork() == 0:
            if os.fork() == 0:
                sleep_on(path)
            sleep_on(path)
    elif kind == "program":
        # One write: with PYTHONUNBUFFERED a print is two, and lines of two writers are interleaved.
        command = "import os, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(100)"
        nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {command!r}])"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        subprocess.Popen([sys.executable, "-c", nested], stdout=fd, start_new_session=True)
    elif kind == "spawn":
        mp.start_processes(sleep_on_rank, (path,), nprocs=2, join=False, start_method=method)
    elif kind == "exec":
        report_pid(path)
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(100)"])
    elif kind == "busy":
        report_pid(path)
        sum(range(10**12))  # one call of C code, in which no Python handler runs
    sleep_on(path)


def sleep_with_children(path, method):
    mp.get_context(method).Process(target=sleep_on, args=(path,)).start()
    with mp.get_context(method).Pool(1) as pool:
        pool.apply_async(sleep_on, (path,))
        sleep_on(path)


def sleep_on_rank(rank, path):
    sleep_on(path)


if __name__ == "__main__":
    path, method, kind, thread = sys.argv[1:]
    bystander = os.fork()  # has the parent's descriptors, and keeps running
    if bystander == 0:
        time.sleep(100)
    Path(path + ".bystander").write_text(str(bystander))

    def start():
        global started  # a pool ends with its object
        if kind == "pool":
            started = mp.get_context(method).Pool(3)
            started.map_async(sleep_on, [path, path], chunksize=1)
        elif kind == "pool in a pool":
            started = mp.get_context(method).Pool(2)
            started.starmap_async(sleep_with_children, [(path, method)] * 2, chunksize=1)
        elif kind == "daemon":
            for _ in range(2):
                mp.get_context(method).Process(target=sleep_on, args=(path,), daemon=True).start()
        elif kind == "executor":
            started = ProcessPoolExecutor(2, mp_context=mp.get_context(method))
            for _ in range(2):
                started.submit(sleep_on, path)
        else:
            started = mp.start_processes(
                work, (path, method, kind), nprocs=2, join=False, start_method=method
            )

    if thread == "thread":
        starter = threading.Thread(target=start)
        starter.start()
        starter.join()
    else:
        start()
    if (later := os.fork()) == 0:
        time.sleep(100)
    Path(path + ".later").write_text(str(later))
    if sys.stdin.readline() == "os._exit\n":
        os._exit(3)
    time.sleep(100)
