"""A closure over an array is sent repeatedly through a pipe of multiprocess."""

import pickle

import multiprocess
import numpy as np

import shmtensor as st


def closure(array):
    return lambda: array


def copies():
    return (st.stats()["bytes_live"] - idle) // table.nbytes


if __name__ == "__main__":
    st.install("multiprocess")
    table = np.asfortranarray(np.arange(100_000.0).reshape(1000, 100)).astype("M8[s]")
    table.setflags(write=False)
    receiver, sender = multiprocess.Pipe()
    idle = st.stats()["bytes_live"]
    for _ in range(2):
        sender.send(closure(table))
    assert copies() == 1
    first, second = receiver.recv()(), receiver.recv()()
    assert (first == table).all()
    assert first.flags.f_contiguous
    first[0] = 7
    assert (second == table).all()
    sender.send(first)
    assert copies() == 2
    assert (receiver.recv() == first).all()
    sender.send(second)
    assert copies() == 1
    assert receiver.poll()
    for connection in (sender, receiver):
        connection.close()
    del first, second
    pickle.loads(multiprocess.reduction.ForkingPickler.dumps(table))  # for no pipe
