"""A process that adopts orphans (PID 1 of a container, a subreaper) is the parent of its managers."""

from __future__ import annotations

import pytest

from tests.helpers.children import await_end_of_session, run_beside


@pytest.mark.thorough
def test_killed_managers_are_reaped() -> None:
    """Each stayed as a zombie until the program ended."""
    await_end_of_session(run_beside(__file__, "adopted_managers"))
