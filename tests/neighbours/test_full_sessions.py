"""A session with as many processes as it can have: the next one raises an error that names what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.children import manager_pids, run_python, wait_until

ROOT = {"PYTHONPATH": str(Path(__file__).parents[2])}

PROGRAM = """
    import os, resource, socket
    import shmtensor as st
    from tests.helpers.manager_messages import hello

    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    tensor = st.full(1000, 7)
    session = st.stats()["session"]
    connections = []
    for _ in range(1023):
        connections.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        connections[-1].connect(f"\\0shmtensor-{session}")
        connections[-1].send(hello(session))
        _, descriptors, _, _ = socket.recv_fds(connections[-1], 1024, 1)
        os.close(*descriptors)
    assert st.stats()["processes"] == 1024
    pid = os.fork()
    if pid == 0:
        try:
            st.ones(3)
        except st.SessionError as error:
            print(error, flush=True)
        os._exit(tensor.tolist() != [7] * 1000)
    assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.thorough
def test_child_without_a_slot_reports_that_all_are_taken() -> None:
    """It reported that the manager could not be reached."""
    done = run_python(PROGRAM, env=ROOT)
    assert done.returncode == 0, done.stderr
    reason = (
        "refuses: all 1024 slots of the session are taken, one by each process that uses it; end some, or "
        "let others use another session (SHMTENSOR_SESSION)"
    )
    assert done.stdout.startswith("this process was forked without a slot in the session (the manager of")
    assert reason in done.stdout
    childs, parents = sorted(done.stderr.splitlines())  # the two processes write side by side
    assert parents.startswith("shmtensor: cannot assign a slot to a forked child: ")
    assert "the tensors it inherited are not protected" in childs
    assert reason in parents
    assert reason in childs
    session = done.stdout.split("manager of session ")[1][:32]
    wait_until(lambda: not manager_pids(session), what="the manager to end")


FEW_DESCRIPTORS = """
    import os, resource
    import shmtensor as st

    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    st.empty(1)
    end, never = os.pipe()
    pids = []
    answer = b""
    while answer in (b"", b"joined") and len(pids) < 40:
        ours, theirs = os.pipe()
        pids.append(os.fork())
        if pids[-1] == 0:
            os.close(never)
            try:
                kept = st.full(1000, len(pids))
                os.write(theirs, b"joined")
            except st.SessionError as error:
                os.write(theirs, str(error).encode())
            os.read(end, 1)
            os._exit(0)
        os.close(theirs)
        answer = os.read(ours, 1000)
        os.close(ours)
    assert st.stats()["processes"] == len(pids), "those before are served"
    os.close(never)
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    print(len(pids), answer.decode())
"""


def test_manager_without_descriptors_rejects_a_process_that_reports_it() -> None:
    done = run_python(FEW_DESCRIPTORS)
    assert done.returncode == 0, done.stderr
    count, reason = done.stdout.split(" ", 1)
    assert 5 < int(count) < 20
    assert reason.startswith("cannot use session ")
    assert "its descriptors are used up, about three for each process: raise the hard limit" in reason
