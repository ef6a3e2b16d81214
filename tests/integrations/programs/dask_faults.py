"""Workers and clients are killed during transfers. Arguments: the name of a function, its own ones, "on"."""

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.dask_programs import cluster
from tests.helpers.empty_sessions import wait_for_no_blocks


def ones(i=0):
    return np.ones(1_000_000)


def kill_at(place, pid):
    """Kill a process when this one has made its first handles, or is about to use its first ones."""
    from shmtensor.integrations._dask import link

    take_out, load_message = link.take_out, link.load_message

    def kill():
        link.take_out, link.load_message = take_out, load_message
        os.kill(pid, signal.SIGKILL)
        wait_for_no_blocks()  # of a sender

    def taking(frames):
        message = take_out(frames)
        if message and place == "taken out":
            kill()
        return message

    def loading(frame):
        if place == "to be loaded":
            kill()
        return load_message(frame)

    link.take_out, link.load_message = taking, loading


def kill_worker(at, place, victim):
    with cluster() as (client, addresses):
        first, second = addresses
        named = {"first": first, "second": second}
        pid = client.run(os.getpid)[named[victim]]
        made = client.submit(ones, workers=[first], allow_other_workers=True)
        client.run(kill_at, place, pid, workers=[named[at]])
        total = client.submit(np.sum, made, workers=[second], allow_other_workers=True)
        assert total.result(timeout=60) == 1_000_000
        assert pid not in client.run(os.getpid).values()
        del made, total


def kill_client(call):
    with cluster() as (client, (first, _)):
        command = [sys.executable, __file__, "be_client", call, client.scheduler.address, first, "on"]
        done = subprocess.run(command, timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL, done
        wait_for_no_blocks()
        assert client.submit(np.sum, client.scatter(ones(), direct=True)).result(timeout=60) == 1_000_000


def be_client(call, address, worker):
    from distributed import Client

    st.install("dask")
    client = Client(address)
    if call == "scatter":
        kill_at("taken out", os.getpid())
        client.scatter(ones(), workers=[worker], direct=True, hash=False)
    else:
        made = client.submit(ones, workers=[worker], pure=False)
        kill_at("to be loaded", os.getpid())
        client.gather(made, direct=True)


def add(*arrays):
    return sum(arrays)


def is_replaced(worker, client):
    known = client.scheduler_info()["workers"]
    return len(known) == 2 and worker not in known


def kill_at_random():
    choose = random.Random(4)
    with cluster() as (client, _):
        for turn in range(4):
            pids = client.run(os.getpid)
            made = [client.submit(ones, i, pure=False) for i in range(8)]
            added = [client.submit(add, *choose.sample(made, 4), pure=False) for _ in range(20)]
            time.sleep(choose.random() * 0.2)
            victim = choose.choice(list(pids))
            os.kill(pids[victim], signal.SIGKILL)
            for array in client.gather(added, direct=bool(turn % 2)):
                assert (array == 4).all()
            del made, added, array
            wait_until(partial(is_replaced, victim, client), 90)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:-1])
