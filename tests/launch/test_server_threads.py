"""Threads that simultaneously send to workers, or load messages."""

from __future__ import annotations

import os
import sys
import threading

from shmtensor.multiprocessing._by_value.code_store import CodeStore
from shmtensor.multiprocessing._by_value.object_ids import ObjectIds
from tests.helpers.server_programs import run_with_server


def call_in_threads(threads, work) -> None:
    """Call `work(k)` in several threads, with the shortest switch interval."""
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


def test_concurrent_writes_to_the_code_store() -> None:
    """Regression: two pickles had one offset, and a worker ran the wrong function."""
    store = CodeStore()
    got = []

    def publish(k) -> None:
        for i in range(1000):
            content = b"%d-%d;" % (k, i) * 20
            got.append((store.add(content), content))

    call_in_threads(4, publish)
    (file,) = store.files().values()
    try:
        assert sum(store.read(location) != content for location, content in got) == 0
    finally:
        os.close(file)


def test_concurrent_requests_for_one_id() -> None:
    """Regression: a class that two threads sent simultaneously was two classes in a worker."""
    ids = ObjectIds()
    classes = [type("Sent", (), {}) for _ in range(3000)]
    got = [[], []]
    both = threading.Barrier(2)

    def ask(k) -> None:
        for cls in classes:
            both.wait(60)
            got[k].append(ids.of(cls))

    call_in_threads(2, ask)
    assert got[0] == got[1]


def test_concurrent_loads_of_one_class(tmp_path) -> None:
    """Regression: a thread used an object that the other had not filled yet: NameError in the worker."""
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
