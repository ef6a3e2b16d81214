"""Functions of two programs in one worker; `test_server_globals.py` runs it."""

import os

import shmtensor.multiprocessing as mp

context = mp.get_context("server")
value = "parent's"


def read():
    return value


def read_too():
    return value


def assign_and_return():
    global value
    value = "worker's"
    return lambda: value


with context.Pool(1) as pool:
    assert pool.apply(read) == "parent's"
    returned = pool.apply(assign_and_return)
    assert returned() == pool.apply(read) == "worker's"
    assert value == read() == "parent's"
    again = pool.apply(lambda function: function(), (returned,))
    assert again == "worker's"
if (child := os.fork()) == 0:
    value = "child's"
    with context.Pool(1) as pool:
        assert pool.apply(lambda: read_too()) == "child's"  # noqa: PLW0108 - it is a global of the lambda
        assert pool.apply(lambda: value) == "child's"
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
