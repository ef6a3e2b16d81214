"""Threads that load messages; `test_server_threads.py` runs it."""

import functools
import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import shmtensor.multiprocessing as mp
from tests.helpers.threads import run_together

context = mp.get_context("server")


def make(k):
    class Local:
        def get(self):
            return k

    return lambda: Local().get()


def work(contents):
    both, got = threading.Barrier(2), ([], [])

    def load(mine):
        for content in contents:
            both.wait(60)
            function = pickle.loads(content)
            mine.append((id(function), function()))
            both.wait(60)

    run_together(*(functools.partial(load, mine) for mine in got))
    return got


with context.Pool(1) as pool:
    contents = [bytes(ForkingPickler.dumps(make(k))) for k in range(300)]
    one, other = pool.apply(work, (contents,))
assert one == other
assert [value for _, value in one] == list(range(300))
