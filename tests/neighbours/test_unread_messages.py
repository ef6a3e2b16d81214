"""Messages that no process can read any more are cancelled; those that a process may still read stay."""

from __future__ import annotations

import pytest

from tests.helpers.children import output, run_beside

CASES = ["killed_processes", "late_orphans"]


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_messages_are_cancelled_if_and_only_if_no_process_can_read_them(case) -> None:
    output(run_beside(__file__, "unread_messages", case, timeout=120))
