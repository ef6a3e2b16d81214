"""Tensors in the standard `multiprocessing`; `test_standard_multiprocessing.py` runs it. Argument: METHOD."""

import multiprocessing as mp
import sys
from concurrent.futures import ProcessPoolExecutor

import shmtensor as st


def add(tensor):
    tensor += 1
    return tensor


def take(inbox, outbox):
    outbox.put(add(inbox.get()))


if __name__ == "__main__":
    assert "shmtensor.multiprocessing" not in sys.modules
    context = mp.get_context(sys.argv[1])
    tensor = st.zeros(1000)
    process = context.Process(target=add, args=(tensor,))
    process.start()
    process.join(60)
    assert tensor[0].item() == 1, "an argument"
    with context.Pool(1) as pool:
        assert pool.apply_async(add, (tensor,)).get(60).storage() is tensor.storage()
    assert tensor[0].item() == 2, "a pool"
    for kind in (context.Queue, context.SimpleQueue):
        inbox, outbox = kind(), kind()
        process = context.Process(target=take, args=(inbox, outbox))
        process.start()
        inbox.put(tensor)
        assert outbox.get().storage() is tensor.storage()
        process.join(60)
    assert tensor[0].item() == 4, "queues"
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        assert executor.submit(add, tensor).result(60).storage() is tensor.storage()
    assert tensor[0].item() == 5, "an executor"
    assert "shmtensor.multiprocessing" not in sys.modules
    print("fine")
