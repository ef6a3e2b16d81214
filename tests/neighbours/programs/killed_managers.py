"""Managers that are killed; `test_sandboxes.py` runs it without lists of robust futexes."""

import os
import pickle
from multiprocessing.reduction import ForkingPickler

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end, kill_manager_of


def send_late(queue, go):
    tensor = st.full(1000, 5)
    queue.put("ready")
    go.recv()
    queue.put(tensor)


if __name__ == "__main__":
    tensor = st.full(1000, 7)
    session = st.stats()["session"]
    context = mp.get_context("fork")
    queue, (ours, theirs) = context.Queue(), context.Pipe()
    sender = context.Process(target=send_late, args=(queue, theirs))
    sender.start()
    assert queue.get() == "ready"
    kill_manager_of(session)
    ours.send("go")
    end(sender)
    assert queue.get().tolist() == [5] * 1000, "its sender has started the next manager"
    kill_manager_of(session)
    assert st.stats()["processes"] == 1
    assert tensor.tolist() == [7] * 1000
    assert pickle.loads(ForkingPickler.dumps(tensor)).storage() is tensor.storage()
    if (pid := os.fork()) == 0:
        os._exit(st.full(3, int(tensor[0])).tolist() != [7] * 3)
    assert os.waitpid(pid, 0)[1] == 0
    print(session)
