"""A program whose worker server, workers, or itself are killed; `test_server.py` runs it."""

import contextlib
import gc
import os
import signal
import sys
import threading
import time

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing._worker_server.client import client
from tests.helpers.children import wait_until

victim, moment = sys.argv[1], float(sys.argv[2])
tensor = st.ones(1000)


def work(rank, tensor):
    time.sleep(0.02)
    return tensor, st.ones(10)


mp.spawn(work, (tensor,), start_method="server")
stopped = False


def kill():
    print("killing", flush=True)
    time.sleep(moment)
    if victim == "parent":
        os.kill(os.getpid(), signal.SIGKILL)
    while not stopped:
        if victim == "server" and client._server is not None:
            os.kill(client._server.pid, signal.SIGKILL)
        for process in mp.active_children() if victim == "worker" else []:
            process.kill()
        time.sleep(0.01 + moment)


killer = threading.Thread(target=kill)
killer.start()
for _ in range(20):
    with contextlib.suppress(mp.ProcessException, ChildProcessError):
        mp.spawn(work, (tensor,), nprocs=2, join=False, start_method="server").results()
stopped = True
killer.join()
gc.collect()  # of failures that were raised
st.gc(older_than=0)  # results that killed workers had pickled but not sent
# `tensor` is left; the manager sweeps after deaths.
wait_until(lambda: st.stats()["blocks"] == 1, what=lambda: f"one block: {st.stats()}")
print("done")
