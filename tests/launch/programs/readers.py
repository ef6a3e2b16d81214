"""Definitions of the main program in messages to workers; `test_server_readers.py` runs it."""

import multiprocessing
import pickle
import sys
import threading
from multiprocessing.reduction import ForkingPickler

import shmtensor.multiprocessing as mp

lock = threading.Lock()
value = None


class Failure(Exception):
    lock = lock


class Item: ...


def fail():
    with lock:
        raise Failure("mine")


def initialize(given):
    global value
    value = given


def give(thing):
    return thing, value


def fail_to_send():
    return lambda: None


def use_a_worker():
    process = mp.get_context("server").Process()
    process.start()
    process.join()


ACTIONS = {
    "nothing": lambda: None,
    "context": lambda: mp.get_context("server"),
    "all": lambda: [mp.get_context(method) for method in mp.get_all_start_methods()],
    "objects": lambda: [(c.Queue(), c.SimpleQueue(), c.Pipe(), c.Lock()) for c in [mp.get_context("server")]],
    "a worker": use_a_worker,
}


def check(context):
    with context.Pool(1, initialize, (7,)) as pool:
        try:
            pool.apply(fail)
        except Failure as error:
            assert error.args == ("mine",)
        thing, got = pool.apply(give, (Item(),))
        assert type(thing) is Item and got == 7
        assert pool.apply(give, (Item,)) == (Item, 7)
        assert pool.apply(give, (give,)) == (give, 7)
        return pool


if __name__ == "__main__":
    ACTIONS[sys.argv[2]]()
    check(mp.get_context(sys.argv[1]))
    if sys.argv[1] != "server":
        check(multiprocessing.get_context(sys.argv[1]))
        with mp.get_context(sys.argv[1]).Pool(1) as pool:
            for work in (lambda: pool.apply(lambda: None), lambda: pool.apply(fail_to_send)):
                try:
                    work()
                except (pickle.PicklingError, AttributeError, multiprocessing.pool.MaybeEncodingError):
                    pass
                else:
                    raise SystemExit("a lambda was sent")
    print(ForkingPickler.dumps(give) == pickle.dumps(give))
