"""No handle leaves a session, though the processes may use the same name for theirs."""

from __future__ import annotations

import os
import sys
import textwrap

import pytest

from tests.helpers.children import importing_tests, run_command, run_program, run_python, write_program
from tests.helpers.dask_programs import QUIET
from tests.helpers.namespaces import ADDRESSES, on_two_hosts

PROOF = """
    import os, sys
    import shmtensor as st
    from shmtensor.integrations._dask.membership import proof
    if len(sys.argv) > 1:
        os.setresuid(*[int(sys.argv[1])] * 3)
    print(proof())
"""


def proof_in(name: str, *user: str) -> str:
    done = run_python(PROOF, env={"SHMTENSOR_SESSION": name}, arguments=user)
    assert done.returncode == 0, done.stderr
    assert done.stdout != "None\n", done.stderr
    return done.stdout


def test_each_session_has_another_proof() -> None:
    assert len({proof_in("train"), proof_in("test")}) == 2


def test_programs_of_a_session_have_the_same_proof() -> None:
    """While the session lives; the next one of that name has another memory, and with it another proof."""
    program = "import subprocess, sys\n" + textwrap.dedent(PROOF)
    program += (
        f"sys.stdout.flush()\nsubprocess.run([sys.executable, '-c', {textwrap.dedent(PROOF)!r}], check=True)"
    )
    done = run_python(program, env={"SHMTENSOR_SESSION": "train"})
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()
    assert first == second


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_each_user_has_another_proof() -> None:
    assert len({proof_in("train"), proof_in("train", "12345"), proof_in("train", "12346")}) == 3


START = """
    import subprocess
    import sys

    import numpy as np

    import shmtensor as st
    from tests.helpers.dask_programs import ON, cluster, owner

    PRELOAD = ["--preload", "shmtensor.integrations.dask"] if ON else []


    def make(i):
        return np.arange(i, i + 500_000.0)


    def receive(array):
        assert array.flags.writeable
        found = owner(array)
        array += 1
        return float(array.sum()), found
"""

WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard"]


@pytest.mark.parametrize("session", ["same", "other"])
def test_worker_that_another_program_starts(tmp_path, session) -> None:
    """Its session is in the environment, the integration in Dask's configuration."""
    program = write_program(
        tmp_path,
        START
        + f"""
    WORKER = {[*WORKER, "--no-nanny", "--local-directory", str(tmp_path)]!r}

    if __name__ == "__main__":
        with cluster(workers=1) as (client, (first,)):
            import os

            environment = dict(os.environ)
            environment["SHMTENSOR_SESSION"] = st.stats()["session"] if {session!r} == "same" else "other"
            command = [*WORKER, client.scheduler.address, "--name", "second", *PRELOAD]
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
    """,
    )
    done = run_program(program, "on", env={**importing_tests(), **QUIET})
    assert done.returncode == 0, done.stderr
    total, kind = 124999750000.0, "view" if session == "same" else "private"
    expected = f"({total + 5e5}, '{kind}') ({total + 1e6}, '{kind}')\n{kind}\n"
    assert done.stdout == expected


@pytest.mark.thorough
def test_two_hosts(tmp_path) -> None:
    """Each has two workers, and a session of the same name. Results equal those without the integration."""
    program = write_program(
        tmp_path,
        START
        + f"""

    if __name__ == "__main__":
        with cluster(host={ADDRESSES[0]!r}, scheduler_port=8786) as (client, _):
            client.wait_for_workers(4, timeout=40)
            workers = sorted(client.scheduler_info()["workers"])
            assert [w.split(":")[1][2:] for w in workers] == {[*ADDRESSES[:1] * 2, *ADDRESSES[1:] * 2]!r}
            names = client.run(lambda: __import__("socket").gethostname())
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
    """,
    )
    outputs = []
    for state in ("on", "off"):
        folder = tmp_path / state
        folder.mkdir()
        worker = [*WORKER, "--nworkers", "2", "--local-directory", str(folder), f"{ADDRESSES[0]}:8786"]
        if state == "on":
            worker += ["--preload", "shmtensor.integrations.dask"]
        command = on_two_hosts(folder, [sys.executable, str(program), state], worker)
        environment = {**importing_tests(), **QUIET, "SHMTENSOR_SESSION": "train"}
        done = run_command(command, timeout=100, env=environment)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("['alpha', 'alpha', 'beta', 'beta']\n")
