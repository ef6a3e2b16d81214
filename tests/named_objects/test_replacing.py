"""`publish` under a name in use: `attach` returns the old or the new object, at every instant."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import named_objects
from tests.helpers.children import end, output, run_beside
from tests.helpers.live_resources import assert_no_leaks
from tests.helpers.queues import take

READERS = 3
VERSIONS = 150


def at_each_line(call, look) -> int:
    """Call `look` before each line of named_objects that `call` executes; return the number of lines."""
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        if frame.f_code.co_filename != named_objects.__file__:
            return None
        if event == "line":
            lines += 1
            sys.settrace(None)
            look()
            sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("old", [st.SharedList([1]), {"array": np.ones(3)}, 1], ids=["list", "array", "1"])
def test_attach_at_each_line_of_publish_gets_old_or_new_object(old) -> None:
    seen = []
    st.ones(1)
    with assert_no_leaks():
        st.publish("lines", ("old", old))
        lines = at_each_line(
            lambda: st.publish("lines", ("new", 2)), lambda: seen.append(st.attach("lines")[0])
        )
        assert lines > 20
        assert set(seen) == {"old", "new"}
        assert seen == sorted(seen, reverse=True), "the new one stays"
        st.unpublish("lines")
        seen.clear()


def test_once_at_each_line_of_publish_builds_nothing() -> None:
    def fail() -> None:
        raise AssertionError("it is published")

    with assert_no_leaks():
        st.publish("lines", "old")
        at_each_line(lambda: st.publish("lines", "new"), lambda: st.once("lines", fail))
        st.unpublish("lines")


def test_publish_that_fails_leaves_the_old_object() -> None:
    with assert_no_leaks():
        st.publish("kept", st.ones(3))
        with pytest.raises(Exception, match="pickle"):
            st.publish("kept", [st.ones(10), (i for i in ())])
        assert st.attach("kept").numpy().sum() == 3
        st.unpublish("kept")


def read(first: int) -> None:
    """Attach until the last version; each is whole, and none is older than the one before."""
    seen = first
    while seen < VERSIONS:
        found = st.attach("weights")
        version = int(found["tensor"].numpy()[0])
        assert version >= seen
        assert (found["array"] == version).all()
        assert st.once("weights", lambda: None) is not None
        seen = version


def reader(number: int, results) -> None:
    read(0)
    results.put(number)


def weights(version: int) -> dict:
    return {"tensor": st.full(1000, version), "array": np.full(1000, version)}


def test_processes_and_threads_attach_while_another_publishes(ctx) -> None:
    results = ctx.SimpleQueue()
    st.publish("weights", weights(0))
    processes = [ctx.Process(target=reader, args=(number, results)) for number in range(READERS)]
    for process in processes:
        process.start()
    failed = []

    def thread() -> None:
        try:
            read(0)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=thread) for _ in range(2)]
    for one in threads:
        one.start()
    for version in range(1, VERSIONS + 1):
        st.publish("weights", weights(version))
    for one in threads:
        one.join()
    assert not failed, failed
    assert {take(results) for _ in processes} == set(range(READERS))
    for process in processes:
        end(process)
    results.close()
    st.unpublish("weights")
    assert mp.active_children() == []


OLD, NEW = 0, 1


@pytest.mark.parametrize(
    ("point", "value"),
    [
        ("name.before_handle", OLD),
        ("name.before_publish", OLD),
        ("name.published", NEW),
        ("name.before_erase", NEW),
        ("name.before_release", NEW),
    ],
)
def test_publisher_stopped_and_killed_at_each_step_leaves_one_object(point, value) -> None:
    assert output(run_beside(__file__, "stopped_publisher", point)) == f"{value} {value}\n{value}\n2\n"
