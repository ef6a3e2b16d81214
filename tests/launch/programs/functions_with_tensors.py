"""Functions that refer to tensors; `test_server_globals.py` runs it."""

from concurrent.futures import ProcessPoolExecutor

import shmtensor as st
import shmtensor.multiprocessing as mp

context = mp.get_context("server")
tensor = st.ones(4)
several = {"first": tensor}


def by_global():
    return int(tensor.numpy().sum())


def by_dict():
    return int(several["first"].numpy().sum())


def by_default(given=tensor):
    return int(given.numpy().sum())


class Owner:
    attribute = tensor

    def method(self):
        return int(self.attribute.numpy().sum())


def make():
    inner = tensor
    return lambda: int(inner.numpy().sum())


closure, owner = make(), Owner()
array = tensor.numpy()


def by_array():
    return int(array.sum())


indirect = lambda: by_global()  # noqa: E731, PLW0108
functions = (by_global, by_dict, by_default, by_array, owner.method, closure, indirect)
tasks = context.Queue()


def work():
    assert tasks.get()() == 4


for function in functions:
    with context.Pool(1) as first, context.Pool(1) as second:
        for pool in (first, second, first, second):
            assert pool.apply(function) == 4
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        assert executor.submit(function).result() == 4
    for _ in range(2):
        tasks.put(function)
        worker = context.Process(target=work)
        worker.start()
        worker.join()
        assert worker.exitcode == 0, function
tensor = st.zeros(4)
with context.Pool(1) as first, context.Pool(1) as second:
    assert [pool.apply(by_global) for pool in (first, second, first, second)] == [0] * 4
