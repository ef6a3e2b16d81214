"""Tensors that go to a worker and back.

`test_environments.py` runs it in many environments. Argument: METHOD.
"""

import sys
import time

import shmtensor as st
import shmtensor.multiprocessing as mp


def work(inbox, outbox):
    for _ in range(3):
        tensor = inbox.get()
        tensor += 1
        outbox.put([tensor, st.full(1000, 7)])


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=work, args=(inbox, outbox))
    process.start()
    tensor = st.zeros(1 << 20)
    for turn in range(1, 4):
        inbox.put(tensor)
        back, other = outbox.get()
        assert float(tensor.numpy().sum()) == turn * (1 << 20)
        assert back.storage() is tensor.storage()
        assert other.tolist() == [7] * 1000
    process.join(60)
    assert process.exitcode == 0
    del back, other, tensor
    deadline = time.monotonic() + 60
    while st.stats()["blocks"] > st.stats()["queues"]:
        assert time.monotonic() < deadline, st.stats()
        time.sleep(0.01)
    print("fine")
