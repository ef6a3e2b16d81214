"""Threads that send to workers, or load what came, at once."""

from __future__ import annotations

import os
import sys
import threading

from shmtensor.multiprocessing._library import Library
from shmtensor.multiprocessing._numbers import Numbers
from tests.helpers.server_programs import run_with_server


def at_once(threads, work) -> None:
    """Call `work(k)` in as many threads, which take turns as often as the interpreter lets them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        started = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_threads_that_publish_at_once() -> None:
    """Each pool pickles in a thread of its own: pieces lay at one offset, a worker ran the wrong function."""
    library = Library()
    got = []

    def publish(k) -> None:
        for i in range(1000):
            content = b"%d-%d;" % (k, i) * 20
            got.append((library.add(content), content))

    at_once(4, publish)
    (file,) = library.files().values()
    try:
        assert sum(library.read(place) != content for place, content in got) == 0
    finally:
        os.close(file)


def test_threads_that_ask_for_a_number_at_once() -> None:
    """A class that two threads sent at once had two numbers, and was two classes in a worker."""
    numbers = Numbers()
    classes = [type("Sent", (), {}) for _ in range(3000)]
    got = [[], []]
    both = threading.Barrier(2)

    def ask(k) -> None:
        for cls in classes:
            both.wait(60)
            got[k].append(numbers.of(cls))

    at_once(2, ask)
    assert got[0] == got[1]


def test_threads_that_load_at_once(tmp_path) -> None:
    """One had what the other had made and not yet filled: NameError in the worker."""
    run_with_server(
        tmp_path,
        """
        def make(k):
            class Local:
                def get(self):
                    return k
            return lambda: Local().get()
        def work(contents):
            sys.setswitchinterval(1e-6)
            both, got = threading.Barrier(2), ([], [])
            def load(mine):
                for content in contents:
                    both.wait(60)
                    function = pickle.loads(content)
                    mine.append((id(function), function()))
                    both.wait(60)
            threads = [threading.Thread(target=load, args=(mine,)) for mine in got]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return got
        from multiprocessing.reduction import ForkingPickler
        with context.Pool(1) as pool:
            contents = [bytes(ForkingPickler.dumps(make(k))) for k in range(300)]
            one, other = pool.apply(work, (contents,))
        assert one == other
        assert [value for _, value in one] == list(range(300))
        """,
    )
