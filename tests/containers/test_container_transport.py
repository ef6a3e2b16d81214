"""Containers in several processes, for every start method."""

from __future__ import annotations

import os

import numpy as np

import shmtensor as st
from tests.helpers.children import end, running
from tests.helpers.queues import take


def read_items(items, queue) -> None:
    array = items[1]["array"]
    queue.put((len(items), items[0], items[-1], float(array.sum()), array.flags.writeable, os.getpid()))
    queue.put(items[::-1])


def test_list_passed_to_child_returns_as_view(ctx, strategy) -> None:
    items = st.SharedList([{"a": 1}, {"array": np.ones(1000)}, *range(100)])
    queue = ctx.SimpleQueue()
    children = [ctx.Process(target=read_items, args=(items, queue)) for _ in range(2)]
    for child in children:
        child.start()
    seen = [take(queue) for _ in range(4)]
    for child in children:
        end(child)
    queue.close()
    answers = [answer for answer in seen if isinstance(answer, tuple)]
    assert [answer[:5] for answer in answers] == [(102, {"a": 1}, 99, 1000.0, False)] * 2
    assert {answer[5] for answer in answers} == {child.pid for child in children}
    for view in seen:
        if isinstance(view, st.SharedList):
            assert view == list(items)[:1] or view[-1] == {"a": 1}
            assert view._pieces[0] is items._pieces[0]


def build(queue) -> None:
    queue.put(st.SharedList({"i": i, "array": np.full(10, i)} for i in range(1000)))


def test_list_outlives_its_builder(ctx, strategy) -> None:
    queue = ctx.SimpleQueue()
    with running(ctx, build, queue):
        items = take(queue)
    queue.close()
    assert items[999]["i"] == 999
    assert (items[500]["array"] == 500).all()


def pick(items, index):
    return items[index]


def test_pools_accept_lists_and_their_items(ctx) -> None:
    items = st.SharedList(np.full(3, i) for i in range(50))
    with ctx.Pool(2) as pool:
        got = pool.starmap(pick, [(items, i) for i in range(0, 50, 7)])
        pool.close()
        pool.join()
    assert [array.tolist() for array in got] == [[i] * 3 for i in range(0, 50, 7)]
