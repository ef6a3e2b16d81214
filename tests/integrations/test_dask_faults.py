"""Killed workers and clients during transfers: what Dask computes again is right, nothing is left."""

from __future__ import annotations

import pytest

from tests.helpers.children import importing_tests, run_program, write_program
from tests.helpers.dask_programs import QUIET

START = """
    import os
    import random
    import signal
    import subprocess
    import sys
    import time

    import numpy as np

    import shmtensor as st
    from tests.helpers.children import wait_until
    from tests.helpers.dask_programs import cluster, wait_for_no_blocks


    def ones(i=0):
        return np.ones(1_000_000)


    def kill_at(place, pid):
        '''Kill a process when this one has made its first handles, or is about to use its first ones.'''
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
"""

ENVIRONMENT = {
    **importing_tests(),
    **QUIET,
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "100",
    # So long after a worker's end, LocalCluster gives up a worker that is not there at that instant, which a
    # later kill may have ended.
    "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1h",
}


def run(folder, code: str) -> None:
    done = run_program(write_program(folder, START + code), "on", timeout=110, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("at", "place", "victim"),
    [
        ("first", "taken out", "first"),
        ("second", "to be loaded", "first"),
        ("second", "to be loaded", "second"),
    ],
)
def test_worker_is_killed(tmp_path, at, place, victim) -> None:
    """The sender before the message, the sender before the receiver uses it, and the receiver."""
    run(
        tmp_path,
        f"""

    if __name__ == "__main__":
        with cluster() as (client, (first, second)):
            pid = client.run(os.getpid)[{victim}]
            made = client.submit(ones, workers=[first], allow_other_workers=True)
            client.run(kill_at, {place!r}, pid, workers=[{at}])
            total = client.submit(np.sum, made, workers=[second], allow_other_workers=True)
            assert total.result(timeout=60) == 1_000_000
            assert pid not in client.run(os.getpid).values()
            del made, total
    """,
    )


@pytest.mark.parametrize("call", ["scatter", "gather"])
def test_client_is_killed(tmp_path, call) -> None:
    """During a direct transfer: while it has handed out handles, or is about to use some."""
    run(
        tmp_path,
        f"""

    def client_program(address, worker):
        from distributed import Client

        st.install("dask")
        client = Client(address)
        if {call!r} == "scatter":
            kill_at("taken out", os.getpid())
            client.scatter(ones(), workers=[worker], direct=True, hash=False)
        else:
            made = client.submit(ones, workers=[worker], pure=False)
            kill_at("to be loaded", os.getpid())
            client.gather(made, direct=True)


    if __name__ == "__main__":
        if len(sys.argv) > 2:
            client_program(*sys.argv[1:3])
        with cluster() as (client, (first, second)):
            command = [sys.executable, __file__, client.scheduler.address, first, "on"]
            done = subprocess.run(command, timeout=60, check=False)
            assert done.returncode == -signal.SIGKILL, done
            wait_for_no_blocks()
            assert client.submit(np.sum, client.scatter(ones(), direct=True)).result(timeout=60) == 1_000_000
    """,
    )


def test_workers_are_killed_at_random_instants(tmp_path) -> None:
    run(
        tmp_path,
        """

    def add(*arrays):
        return sum(arrays)


    def workers(client):
        return client.scheduler_info()["workers"]


    if __name__ == "__main__":
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
                wait_until(lambda: len(known := workers(client)) == 2 and victim not in known, 90)
    """,
    )
