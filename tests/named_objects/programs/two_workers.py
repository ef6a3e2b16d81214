"""Two workers that meet in `once`, whatever starts them, and report who built.

`test_program_runs.py` runs it. Arguments: HOW METHOD, and "parent" if it uses tensors, too; or "rank" RANK.
"""

import multiprocessing as mp
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.helpers.children import fork

if "parent" in sys.argv:
    import shmtensor


def build():
    time.sleep(0.2)
    return os.getpid()


def work(number=0):
    import shmtensor as st

    builder = st.once("big", build, timeout=60)
    st.publish(f"done {number}", True)
    for other in range(2):
        st.attach(f"done {other}", timeout=60)
    os.write(1, f"{builder} {st.stats()['session']}\n".encode())


def fork_two(target):
    pids = [fork(partial(target, number)) for number in range(2)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]


def start(target, context):
    processes = [context.Process(target=target, args=(number,)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def nested(number):
    if number == 0:
        fork_two(work)


if __name__ == "__main__":
    how, method = sys.argv[1:3]
    if how == "rank":
        sys.exit(work(int(method)))
    context = mp.get_context(method)
    if how == "fork":
        fork_two(work)
    elif how == "Process":
        start(work, context)
    elif how == "Pool":
        with context.Pool(2) as pool:
            pool.map(work, range(2), chunksize=1)
    elif how == "executor":
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            list(executor.map(work, range(2)))
    elif how == "nested":
        start(nested, context)
    elif how == "renamed":
        with open("/proc/self/comm", "w") as file:  # as setproctitle does
            file.write(") R 1 (")
        fork_two(work)
    if "parent" in sys.argv:
        shmtensor.ones(1)
        print(0, shmtensor.stats()["session"])
