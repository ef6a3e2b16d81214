"""C++ allocations fail, one after the other: no call leaves a tensor behind, or loses a message.

A preloaded library of the tests, `scarce_heap.cpp`, makes them fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.children import run_python

LIBRARY = Path(__file__).resolve().parents[2] / "build/cpp/libscarce-heap.so"

PROGRAM = """
    import ctypes, queue, sys
    import shmtensor as st

    leave = ctypes.PyDLL(sys.argv.pop(1)).leave_allocations
    leave.argtypes = [ctypes.c_uint64]

    def succeeds(call, left):
        leave(left)
        try:
            call()
        except MemoryError:
            return False
        finally:
            leave(2**64 - 1)
        return True

    channel, item = sys.argv[1:]
    if channel == "broadcast":
        target = st.Broadcast(100)
        source = target.reader()
    else:
        target = source = st.Queue(redeliver=channel == "redelivering queue")

    def put():
        tensors = [st.ones(5000) for _ in range(3)]
        target.put({"tensor": tensors[0], "list": tensors, "pickle": (frozenset([1]), tensors)}[item])

    def drain():
        try:
            while True:
                source.get_nowait()
        except queue.Empty:
            pass

    def is_clean():
        drain()
        return st.stats()["blocks"] == blocks

    put()  # what is allocated once
    drain()
    blocks = st.stats()["blocks"]
    for left in range(1000):
        has_put = succeeds(put, left)
        assert is_clean(), f"after a put with {left} allocations"
        put()
        has_got = succeeds(source.get_nowait, left)
        assert is_clean(), f"after a get with {left} allocations"
        if has_put and has_got:
            break
    print(left)
"""


@pytest.mark.parametrize("item", ["tensor", "list", "pickle"])
@pytest.mark.parametrize("channel", ["queue", "redelivering queue", "broadcast"])
def test_failing_allocations_leave_no_tensor_behind(channel: str, item: str) -> None:
    """Regression: a reader that failed within a message lost track of the tickets in it."""
    assert LIBRARY.exists(), "build it: make build/cpp/.built"
    done = run_python(PROGRAM, arguments=(str(LIBRARY), channel, item), env={"LD_PRELOAD": str(LIBRARY)})
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3, "no allocation failed"
