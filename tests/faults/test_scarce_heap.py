"""C++ allocations fail, one after the other: no call ends the process, leaves a block, or loses a message.

A preloaded library of the tests, `scarce_heap.cpp`, makes them fail.
"""

from __future__ import annotations

import pytest

from tests.helpers.children import importing_tests, output, run_beside, run_python
from tests.helpers.scarce_heap import scarce_heap

ITEMS = ["tensor", "list", "pickle", "buffers"]
CHANNELS = ["queue", "redelivering queue", "broadcast", "pipe", "duplex pipe"]
CASES = {
    **dict.fromkeys([*CHANNELS, "names"], ITEMS),
    "containers": ["plain", "arrays", "buffers"],
    "objects": ["all"],
    "forks": ["file_descriptor", "file_system"],
    "processes": ["spawn", "server"],
    "newcomers": ["allocate", "attach", "receive"],
}


@pytest.mark.thorough
@pytest.mark.parametrize(("area", "item"), [(area, item) for area, items in CASES.items() for item in items])
def test_failing_allocations_leave_nothing_behind(area: str, item: str) -> None:
    """Regression: a failed allocation ended the process, in pybind11 or in the fork handler of a child.

    A queue's reader that failed within a message lost track of the tickets in it.
    """
    done = run_beside(__file__, "scarce_heap", area, item, env=scarce_heap())
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3, "no allocation failed"


@pytest.mark.parametrize(
    ("prepare", "call"),
    [
        (
            "_core.home_id()  # there are fork handlers now",
            "os.waitstatus_to_exitcode(os.waitpid(fork(int), 0)[1])",
        ),
        ("st.zeros(1)", "st.gc()"),
    ],
)
def test_first_call_without_memory_does_not_end_the_process(prepare: str, call: str) -> None:
    """Regression: fork handlers allocated the map of addresses, and `gc` the list of deferred releases."""
    code = f"""
        import os
        import shmtensor as st
        from shmtensor import _core
        from tests.helpers.children import fork
        from tests.helpers.scarce_heap import allocations

        leave = allocations()
        {prepare}
        leave(0)
        try:
            assert {call} == 0
        except MemoryError:
            pass
    """
    output(run_python(code, env=scarce_heap() | importing_tests()))
