"""A daemonic process waits for work from its parent, which is killed."""
# not compared: the standard library leaves the process, which waits indefinitely

import multiprocessing as mp
import os
import select
import signal
import sys


def wait(queue):
    queue.get()


def parent(pids, queue):
    child = mp.Process(target=wait, args=(queue,), daemon=True)
    child.start()
    pids.put(child.pid)
    child.join()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    pids, queue = mp.Queue(), mp.Queue()
    process = mp.Process(target=parent, args=(pids, queue))
    process.start()
    child = os.pidfd_open(pids.get())
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    print("ended:", bool(select.select([child], [], [], 30)[0]))

# > ended: True
