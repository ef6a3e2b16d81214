"""Tensors in processes that have no mapping left; `test_system_limits.py` runs it."""

import mmap

import shmtensor as st
import shmtensor.multiprocessing as mp


def take_all():
    taken = []
    try:
        while True:  # of two kinds, so that the kernel does not join neighbours
            taken.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ))
            taken.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE))
    except OSError:
        return taken


def refused(function):
    taken = take_all()
    try:
        function()
    except (st.ShmTensorError, OSError) as error:
        text = str(error)
    else:
        text = "nothing"
    while taken:
        taken.pop().close()
    assert "ENOMEM" in text or "memory" in text, text


def send(queue):
    for value in range(2):
        queue.put(st.full(10, value))
    queue.close()
    queue.join_thread()


if __name__ == "__main__":
    st.ones  # imports modules  # noqa: B018
    refused(lambda: st.ones(10))  # the first tensor of a process maps its session
    first = st.ones(10)
    queue = mp.get_context("spawn").Queue()
    process = mp.get_context("spawn").Process(target=send, args=(queue,))
    process.start()
    process.join(60)
    refused(lambda: queue.get(timeout=60))  # the first tensor of another process maps its arena
    assert [queue.get(timeout=60).tolist() for _ in range(2)] == [[0] * 10, [1] * 10], "none is lost"
    print(first.numpy().sum())
