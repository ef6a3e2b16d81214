"""Killed actors during transfers: an error or the right value for each call; nothing of ours is left."""

from __future__ import annotations

import pytest

from tests.integrations.programs import succeed


def test_sender_is_killed(ray_environment) -> None:
    """Before the owner knows its object, before a receiver borrows it, and after."""
    succeed("ray_faults.py", "kill_senders", "on", env=ray_environment)


@pytest.mark.thorough
def test_receiver_is_killed(ray_environment) -> None:
    """The object stays, for other receivers and until its last reference is deleted."""
    succeed("ray_faults.py", "kill_receivers", "on", env=ray_environment)


@pytest.mark.thorough
def test_random_kills(ray_environment) -> None:
    """Ray keeps what an actor has received for a call that it then fails, until the actor ends."""
    succeed("ray_faults.py", "kill_at_random", "on", env=ray_environment)
