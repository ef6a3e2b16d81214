"""A sender or a receiver of torch's tensors is killed at each step."""

import os
import pickle
import signal
import time
from multiprocessing.reduction import ForkingPickler

import torch

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.empty_sessions import is_empty


def settled():
    st.gc(older_than=0)
    return is_empty()


def start(work):
    """Fork a child, and return when it has what `work` returns."""
    if (pid := os.fork()) == 0:
        _kept = work()
        os.write(writer, b".")
        time.sleep(60)
        os._exit(1)
    os.read(reader, 1)
    return pid


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def wait_until_settled():
    wait_until(settled, what=lambda: str(st.stats()))


if __name__ == "__main__":
    st.install("torch")
    st.zeros(1)
    assert settled()
    reader, writer = os.pipe()

    # Killed after it has reduced, before it has sent.
    kill(start(lambda: ForkingPickler.dumps([torch.ones(1000)] * 3)))
    wait_until_settled()

    # Killed after the sender has reduced, before it rebuilds.
    message = bytes(ForkingPickler.dumps([torch.ones(1000), torch.ones(5)]))
    kill(start(lambda: None))
    assert pickle.loads(message)[0].sum() == 1000
    wait_until_settled()

    # Killed while it holds what it has rebuilt.
    message = bytes(ForkingPickler.dumps(torch.ones(1000)))
    pid = start(lambda: pickle.loads(message))
    assert st.stats()["blocks"] == 1
    kill(pid)
    wait_until_settled()

    # The sender is killed, the receiver has the tensor.
    q = st.Queue()
    kill(start(lambda: q.put(torch.arange(1000))))
    assert q.get(timeout=10).sum() == 499500
    del q
    wait_until_settled()
