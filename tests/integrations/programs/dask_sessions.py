"""Workers of other programs and hosts exchange arrays. Arguments: a function, its own, "on" or "off"."""

import os
import socket
import subprocess
import sys

import numpy as np

import shmtensor as st
from tests.helpers.dask_programs import ON, PRELOAD, WORKER, cluster, owner


def make(i):
    return np.arange(i, i + 500_000.0)


def receive(array):
    assert array.flags.writeable
    found = owner(array)
    array += 1
    return float(array.sum()), found


def start_worker(session, folder):
    with cluster(workers=1) as (client, (first,)):
        environment = dict(os.environ)
        environment["SHMTENSOR_SESSION"] = st.stats()["session"] if session == "same" else "other"
        options = ["--no-nanny", "--local-directory", folder, "--name", "second", *PRELOAD]
        command = [*WORKER, client.scheduler.address, *options]
        with subprocess.Popen(command, env=environment) as worker:
            try:
                client.wait_for_workers(2, timeout=30)
                made = client.submit(make, 0, workers=[first])
                there = client.submit(receive, made, workers=["second"], pure=False)
                back = client.submit(receive, client.submit(make, 1, workers=["second"]), workers=[first])
                print(there.result(timeout=30), back.result(timeout=30))
                array = client.gather(client.submit(make, 1, workers=["second"]), direct=True)
                print(owner(array))
                del made, there, back, array
            finally:
                worker.terminate()
                worker.wait(30)


def use_hosts(first, second):
    with cluster(host=first, scheduler_port=8786) as (client, _):
        client.wait_for_workers(4, timeout=40)
        workers = sorted(client.scheduler_info()["workers"])
        assert [w.split(":")[1][2:] for w in workers] == [first, first, second, second]
        names = client.run(socket.gethostname)
        print([names[w] for w in workers])
        for i, sender in enumerate(workers):
            for receiver in workers:
                made = client.submit(make, i, workers=[sender], pure=False)
                task = client.submit(receive, made, workers=[receiver], pure=False)
                total, found = task.result(timeout=30)
                print(names[sender], names[receiver], sender == receiver, total)
                local = names[sender] == names[receiver] and sender != receiver
                assert found == ("view" if ON and local else "private"), (sender, receiver, found)
                del made, task
            back = client.gather(client.submit(make, i, workers=[sender], pure=False), direct=True)
            assert (back == make(i)).all()
            assert owner(back) == ("view" if ON and names[sender] == "alpha" else "private")
            del back
        print(client.submit(sum, client.map(make, range(8))).result(timeout=30).sum().item())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:-1])
