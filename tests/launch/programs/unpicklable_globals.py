"""Globals that cannot be sent by value; `test_server_by_value.py` runs it."""

import pickle
import threading

import shmtensor.multiprocessing as mp

context = mp.get_context("server")


def check(words, function, *args, error=pickle.PicklingError):
    try:
        function(*args)
    except error as problem:
        text = repr(problem) + repr(problem.__cause__)
        assert all(word in text for word in words), text
    else:
        raise SystemExit(f"no error with {words}")


FACTOR = 2


def use_factor(x):
    return inner(x)


def inner(x):
    return x * FACTOR


lock = threading.Lock()


def use_lock():
    return lock


def find_in_main():
    import __main__

    return __main__.FACTOR


def find_by_pickle():
    return pickle.loads(b"c__main__\nFACTOR\n.")


with context.Pool(1) as pool:
    assert pool.apply(use_factor, (4,)) == 8
    check(["use_lock", "'server'", "lock", "module"], pool.apply, use_lock)
    check(["server", "module", "method"], pool.apply, find_in_main, error=AttributeError)
    check(["server", "module", "method"], pool.apply, find_by_pickle, error=AttributeError)
check(["'server'", "arguments", "fork"], context.Process(target=print, args=(lock,)).start)
print("done")
