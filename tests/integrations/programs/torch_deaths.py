"""A sender or a receiver of torch's tensors is killed at each step."""

import pickle
from multiprocessing.reduction import ForkingPickler

import torch

import shmtensor as st
from tests.helpers.children import fork_idle, kill, wait_until
from tests.helpers.empty_sessions import is_empty


def settled():
    st.gc(older_than=0)
    return is_empty()


def wait_until_settled():
    wait_until(settled, what=lambda: str(st.stats()))


if __name__ == "__main__":
    st.install("torch")
    st.zeros(1)
    assert settled()
    kept = []

    # Killed after it has reduced, before it has sent.
    kill(fork_idle(lambda: kept.append(ForkingPickler.dumps([torch.ones(1000)] * 3))))
    wait_until_settled()

    # Killed after the sender has reduced, before it rebuilds.
    message = bytes(ForkingPickler.dumps([torch.ones(1000), torch.ones(5)]))
    kill(fork_idle(lambda: None))
    assert pickle.loads(message)[0].sum() == 1000
    wait_until_settled()

    # Killed while it holds what it has rebuilt.
    message = bytes(ForkingPickler.dumps(torch.ones(1000)))
    pid = fork_idle(lambda: kept.append(pickle.loads(message)))
    assert st.stats()["blocks"] == 1
    kill(pid)
    wait_until_settled()

    # The sender is killed, the receiver has the tensor.
    q = st.Queue()
    kill(fork_idle(lambda: q.put(torch.arange(1000))))
    assert q.get(timeout=10).sum() == 499500
    del q
    wait_until_settled()
