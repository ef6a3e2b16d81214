"""Handles between processes without a common parent, and between sessions."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _sessions
from tests.helpers.children import clean_environment, kill_manager_of, run_python, wait_until
from tests.helpers.peers import Peer

SENDER = """
import os, sys
from multiprocessing.reduction import ForkingPickler
import shmtensor as st, shmtensor.multiprocessing as mp
mp.set_sharing_strategy(sys.argv[1])
tensor = st.full(1000, 3.0)
sys.stdout.buffer.write(bytes(ForkingPickler.dumps((tensor, st.stats()["session"]))))
sys.stdout.flush(); os.close(1)  # the reader waits for the end
sys.stdin.readline()
"""


@pytest.fixture
def stranger(strategy):
    """A program with its own session that was not started by multiprocessing."""
    process = subprocess.Popen(
        [sys.executable, "-c", SENDER, strategy],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    yield process
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def test_handle_of_another_session_is_opened_as_a_guest(stranger) -> None:
    """torch raises AuthenticationError, "digest sent was rejected"."""
    tensor, session = pickle.loads(stranger.stdout.read())
    assert session != st.stats()["session"]
    assert tensor.numpy().sum() == 3000
    tensor.fill_(1)
    own = st.ones(1)
    assert st.stats()["session"] != session, "tensors of this process belong to its own session"
    again = pickle.loads(ForkingPickler.dumps(tensor))
    assert again.storage() is tensor.storage()
    assert own.item() == 1


def test_guest_keeps_its_tensors_when_the_host_ends(stranger) -> None:
    tensor, _session = pickle.loads(stranger.stdout.read())
    stranger.stdin.close()
    stranger.wait(30)
    assert tensor.numpy().sum() == 3000
    forwarded = pickle.loads(ForkingPickler.dumps(tensor[:10]))
    assert forwarded.numpy().sum() == 30


HOST = """
import os, pickle, signal, sys
from multiprocessing.reduction import ForkingPickler
import shmtensor as st, shmtensor.multiprocessing as mp
mp.set_sharing_strategy(sys.argv[1])
kept = st.ones(1)  # a member of the session; this process never maps the child's tensors
ours, childs = os.pipe()
if os.fork() == 0:
    tensor = st.full(1000, 7.0)
    for _ in range(2):
        os.write(childs, bytes(ForkingPickler.dumps(tensor)).hex().encode() + b"\\n")
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
os.close(childs)
first, second = os.fdopen(ours, "rb")
print(st.stats()["session"], first.decode().strip(), flush=True)
sys.stdin.readline()
print(pickle.loads(bytes.fromhex(second.decode())).numpy().sum(), flush=True)
"""


def test_leaving_guest_does_not_remove_an_arena(stranger, strategy) -> None:
    """A guest leaves the session while its manager is dead; the host's tensor stays valid."""
    st.empty(1)  # in this process's own session, so that it does not adopt the first handle's
    host = Peer([sys.executable, "-c", HOST, strategy], clean_environment())
    session, message = host.answer().split()
    tensor = pickle.loads(bytes.fromhex(message))
    assert tensor.numpy().sum() == 7000
    del tensor
    kill_manager_of(session)
    pickle.loads(stranger.stdout.read())  # a handle of a third session: this process leaves the host's
    assert host.ask() == "7000.0"
    host.end()


MAKER = """
import sys
from multiprocessing.reduction import ForkingPickler
import shmtensor as st, shmtensor.multiprocessing as mp
for _ in sys.stdin:
    tensor = st.full(8, 3.0)
    print(st.stats()["session"], bytes(ForkingPickler.dumps(tensor)).hex(), flush=True)
"""


def slots_of_this_process(session: str) -> int:
    return sum(process["pid"] == os.getpid() for process in _sessions.observe(session)["processes"])


def test_leaving_guest_releases_its_slot() -> None:
    """Regression: repeated guests kept most of their slots, until the session had none left.

    A guest closed its connection before it unmapped the session's memory. The manager took it for a live
    process that had only closed its descriptors, and did not check again.
    """
    st.empty(1)  # in this process's own session
    makers = [Peer([sys.executable, "-c", MAKER], clean_environment()) for _ in range(2)]
    for _ in range(25):
        for maker in makers:  # alternately: to load a handle of one session is to leave the other
            session, message = maker.ask().split()
            assert pickle.loads(bytes.fromhex(message)).numpy().sum() == 24
            wait_until(
                lambda session=session: slots_of_this_process(session) <= 1, what="the old slot to be free"
            )
    for maker in makers:
        maker.end()


def test_process_without_a_session_adopts_that_of_the_first_handle(strategy) -> None:
    tensor = st.ones(4)
    done = run_python(
        f"""
        import pickle
        import shmtensor as st
        assert st.stats()["session"] is None
        tensor = pickle.loads({bytes(ForkingPickler.dumps(tensor))!r})
        tensor += 1
        print(st.stats()["session"], st.stats()["slot"] is not None)
        """
    )
    assert done.stdout.split() == [st.stats()["session"], "True"], done
    assert tensor.tolist() == [2] * 4
    wait_until(lambda: st.stats()["in_flight"] == 0, what="the ticket to be gone")


def test_environment_variable_names_the_session(strategy) -> None:
    """Two programs with the same SHMTENSOR_SESSION (any text) are in one session."""
    code = """if True:
        import sys
        import shmtensor as st
        tensor = st.ones(1)
        print(st.stats()["session"], flush=True)
        sys.stdin.readline()
    """
    env = clean_environment(SHMTENSOR_SESSION=f"job-{os.getpid()}")
    programs = [Peer([sys.executable, "-c", code], env) for _ in range(3)]
    sessions = {program.answer() for program in programs}
    for program in programs:
        program.end()
    assert len(sessions) == 1


def test_receivers_forward_without_imports(strategy) -> None:
    """Loading a handle registers the reducers."""
    tensor = st.ones(4)
    done = run_python(
        f"""
        import pickle
        from multiprocessing.reduction import ForkingPickler
        tensor = pickle.loads({bytes(ForkingPickler.dumps(tensor))!r})
        message = ForkingPickler.dumps(tensor)
        assert len(message) < 300
        assert pickle.loads(message).storage() is tensor.storage()
        print("fine")
        """
    )
    assert done.stdout == "fine\n", done
    assert mp.get_sharing_strategy() == strategy
