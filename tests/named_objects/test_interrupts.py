"""Signal handlers that raise, and forks, in the middle of a change of a name."""

from __future__ import annotations

import pytest

import shmtensor as st
import shmtensor._core as _core
from shmtensor import named_objects
from tests.helpers.children import output, run_python
from tests.helpers.interrupts import call_with_interrupt
from tests.helpers.live_resources import assert_no_leaks


def publish(name: str) -> None:
    st.publish(name, st.ones(3))


CALLS = {
    "publish": (lambda name: None, publish),
    "replace": (publish, publish),
    "once": (lambda name: None, lambda name: st.once(name, lambda: st.ones(3))),
    "unpublish": (publish, st.unpublish),
}


@pytest.mark.parametrize("call", CALLS)
def test_handler_that_raises_anywhere_leaves_no_name_locked(call) -> None:
    prepare, change = CALLS[call]
    name = f"interrupted {call}"
    st.ones(3)
    with assert_no_leaks():
        instruction, reached = 0, True
        while reached:
            instruction += 1
            prepare(name)
            reached = call_with_interrupt(lambda: change(name), named_objects, instruction)
            stage = _core.name_read(_core.name_number(name.encode(), True))[1]
            assert stage in ("free", "published"), f"at instruction {instruction}"
            st.publish(name, 1)
            assert st.once(name, int) == 1, "no trace of a recursive build is left"
            st.unpublish(name)
    assert instruction > 100


FORKS = """
    import os, sys
    import shmtensor as st

    def build():
        if (child := os.fork()) == 0:
            {child}
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == {status}, status
        return "the parent's"

    parent = os.getpid()
    try:
        found = st.once("forked in", build)
    except st.SessionError as error:
        assert os.getpid() != parent, error
        assert "by os._exit" in str(error), error
        os._exit(7)
    assert os.getpid() == parent
    assert found == st.attach("forked in") == "the parent's"
    assert st.stats()["blocks"] == 1, st.stats()
    st.unpublish("forked in")
    assert st.stats()["blocks"] == 0, st.stats()
"""


@pytest.mark.parametrize(("child", "status"), [("sys.exit(3)", 3), ("return 'the child'", 7)])
def test_child_that_a_builder_forks_cannot_end_the_build(child, status) -> None:
    output(run_python(FORKS.format(child=child, status=status)))
