"""Threads that simultaneously send to workers, or load messages."""

from __future__ import annotations

import os
import threading
from functools import partial

from shmtensor.multiprocessing._by_value.code_store import CodeStore
from shmtensor.multiprocessing._by_value.object_ids import ObjectIds
from tests.helpers.children import output, run_beside
from tests.helpers.threads import run_together


def test_concurrent_writes_to_the_code_store() -> None:
    """Regression: two pickles had one offset, and a worker ran the wrong function."""
    store = CodeStore()
    got = []

    def publish(k) -> None:
        for i in range(1000):
            content = b"%d-%d;" % (k, i) * 20
            got.append((store.add(content), content))

    run_together(*(partial(publish, k) for k in range(4)))
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

    run_together(partial(ask, 0), partial(ask, 1))
    assert got[0] == got[1]


def test_concurrent_loads_of_one_class() -> None:
    """Regression: a thread used an object that the other had not filled yet: NameError in the worker."""
    output(run_beside(__file__, "concurrent_loads"))
