"""Actors of Ray in one session, in several, and in one whose memory is used up."""

from __future__ import annotations

import pytest

from tests.helpers.ray_programs import QUIET
from tests.integrations.programs import succeed


@pytest.mark.thorough
def test_values_without_shared_memory(ray_environment) -> None:
    """An actor that has reached its limit sends bytes; one of another session receives handles as a guest."""
    succeed("ray_sessions.py", "use_several", "on", env=ray_environment)


@pytest.mark.thorough
def test_cluster_that_the_program_starts_is_in_its_session() -> None:
    succeed("ray_sessions.py", "start_cluster", "on", env=QUIET)
