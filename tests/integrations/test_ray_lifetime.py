"""Memory that actors of Ray share is released with the last reference to it."""

from __future__ import annotations

import pytest

from tests.integrations.programs import succeed


@pytest.mark.thorough
def test_memory_is_released_with_the_last_reference(ray_environment) -> None:
    """Whoever has it; a receiver keeps what it has received. So too after `uninstall`."""
    succeed("ray_lifetime.py", "on", env=ray_environment)
