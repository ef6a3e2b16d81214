"""Workers use one copy of an array, and the memory of a tensor. Arguments: the name of a function, "on"."""

import sys

import numpy as np

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.dask_programs import cluster, owner
from tests.helpers.empty_sessions import wait_for_no_blocks


def ones():
    return np.ones(1_000_000)


def check(array, value):
    assert owner(array) == "view"
    assert (array == value).all()


def change(array):
    array += 1
    return array


def wait_for_blocks(number):
    """A worker releases the mark of a message when it has read the answer to it."""
    wait_until(lambda: st.stats()["blocks"] == number, 20, lambda: str(st.stats()))


def use_one_copy():
    with cluster(workers=3) as (client, (first, second, third)):
        made = client.submit(ones, workers=[first])
        for worker in (second, third):
            client.submit(check, made, 1, workers=[worker], pure=False).result()
        wait_for_blocks(1)
        changed = client.submit(change, made, workers=[second], pure=False)
        client.submit(check, changed, 2, workers=[third], pure=False).result()
        wait_for_blocks(2)
        here = client.submit(change, made, workers=[first], pure=False)
        client.submit(check, here, 2, workers=[second], pure=False).result()
        wait_for_blocks(3)
        del made, changed, here
        wait_for_no_blocks()

        there = client.submit(ones, workers=[first], pure=False)
        client.submit(check, there, 1, workers=[second], pure=False).result()
        array = client.gather(there, direct=True)
        assert owner(array) == "view"
        wait_for_blocks(1)
        again = client.scatter(array, workers=[third], direct=True, hash=False)
        client.submit(check, again, 1, workers=[third], pure=False).result()
        wait_for_blocks(1)
        del there, again, array


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor


def tensors(nbytes):
    tensor = st.zeros(nbytes, np.uint8)
    parts = {"array": tensor.numpy()[10:20], "holder": Holder(tensor), "fixed": tensor.as_readonly()}
    return {"tensor": tensor, **parts}


def write(found):
    assert all(found[name].is_shared() for name in ("tensor", "fixed"))
    assert found["fixed"].readonly
    found["tensor"][0] = 1
    found["array"][0] = 2
    found["holder"].tensor[1] = 3


def read(found):
    return found["tensor"].numpy()[[0, 1, 10]].tolist(), found["fixed"][1].item()


def share_tensors():
    with cluster() as (client, (first, second)):
        for nbytes in (100, 3_000_000):
            made = client.submit(tensors, nbytes, workers=[first])
            client.submit(write, made, workers=[second], pure=False).result()
            assert client.submit(read, made, workers=[first], pure=False).result() == ([1, 3, 2], 3)
            assert read(client.gather(made, direct=True)) == ([1, 3, 2], 3)
            del made


if __name__ == "__main__":
    globals()[sys.argv[1]]()
