"""No handle leaves a session, though the processes may use the same name for theirs."""

from __future__ import annotations

import os
import sys
import textwrap

import pytest

from tests.helpers.children import importing_tests, run_command, run_python
from tests.helpers.dask_programs import PRELOAD, QUIET, WORKER
from tests.helpers.namespaces import ADDRESSES, on_two_hosts
from tests.integrations.programs import PROGRAMS, succeed

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


@pytest.mark.parametrize("session", ["same", "other"])
def test_worker_that_another_program_starts(tmp_path, session) -> None:
    """Its session is in the environment, the integration in Dask's configuration."""
    out = succeed("dask_sessions.py", "start_worker", session, str(tmp_path), "on", env=QUIET)
    total, kind = 124999750000.0, "view" if session == "same" else "private"
    assert out == f"({total + 5e5}, '{kind}') ({total + 1e6}, '{kind}')\n{kind}\n"


@pytest.mark.thorough
def test_two_hosts(tmp_path) -> None:
    """Each has two workers, and a session of the same name. Results equal those without the integration."""
    outputs = []
    for state in ("on", "off"):
        folder = tmp_path / state
        folder.mkdir()
        worker = [*WORKER, "--nworkers", "2", "--local-directory", str(folder), f"{ADDRESSES[0]}:8786"]
        if state == "on":
            worker += PRELOAD
        program = [sys.executable, str(PROGRAMS / "dask_sessions.py"), "use_hosts", *ADDRESSES, state]
        command = on_two_hosts(folder, program, worker)
        environment = {**importing_tests(), **QUIET, "SHMTENSOR_SESSION": "train"}
        done = run_command(command, timeout=100, env=environment)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("['alpha', 'alpha', 'beta', 'beta']\n")
