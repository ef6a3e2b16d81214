"""A raw copy (a child made without fork handlers) cannot change its parent's state; it gets an error."""

from __future__ import annotations

import ctypes

import pytest

from tests.helpers.children import output, run_beside


@pytest.fixture(params=["clone", "_Fork"])
def way(request: pytest.FixtureRequest) -> str:
    if request.param == "_Fork" and not hasattr(ctypes.CDLL(None), "_Fork"):
        pytest.skip("glibc has it from 2.34 on")
    return request.param


@pytest.mark.parametrize(
    "case",
    [
        "parent_keeps_tensors_released_in_a_raw_copy",
        "raw_copy_cannot_change_the_session",
        "messages_of_the_parent_remain_valid",
        "child_of_a_raw_copy_is_refused",
        "interpreter_of_a_raw_copy_can_exit",
    ],
)
def test_raw_copy_of_a_process_with_a_session(way, strategy, case) -> None:
    assert output(run_beside(__file__, "raw_fork", way, case, strategy)) == "fine\n"


def test_raw_copy_of_a_process_without_a_session_works(way) -> None:
    """It inherited nothing, so tensors that it creates are its own."""
    assert output(run_beside(__file__, "raw_fork", way, "raw_copy_without_a_session")) == "True\n"
