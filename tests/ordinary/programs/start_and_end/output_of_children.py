"""Children print without flushing, register functions for their exit, and use standard error."""

import atexit
import multiprocessing as mp
import os
import sys
from multiprocessing import util


def work(number):
    util.Finalize(None, print, args=("finalized", number), exitpriority=10)
    print("child", number, "prints", end=" ")
    print("and again")
    sys.stdout.write("with write\n")
    if number == 1:
        sys.exit()
    if number == 2:
        os.write(1, b"")
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    atexit.register(print, "exit of the parent")
    print("before", flush=True)
    for number in range(3):
        process = mp.Process(target=work, args=(number,))
        process.start()
        process.join()
        print("exit code", process.exitcode, flush=True)
