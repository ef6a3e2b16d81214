"""Actors of Ray exchange tensors by handles, and programs notice nothing but the time."""

from __future__ import annotations

import pytest

from tests.helpers.children import assert_equal_output
from tests.integrations.programs import PROGRAMS, succeed


@pytest.mark.thorough
def test_values_between_actors(ray_environment) -> None:
    """Equal in class, content, layout and flags, and writable: no other actor sees what one has written."""
    assert_equal_output(PROGRAMS / "ray_values.py", timeout=100, env=ray_environment)


def test_shared_memory_is_shared(ray_environment) -> None:
    """Tensors, and those of torch over them, are the same memory in all actors, writable or read-only."""
    succeed("ray_tensors.py", "share", "on", env=ray_environment)


def test_tensors_without_transport_are_copied(ray_environment) -> None:
    """In `ray.put`, arguments and results: an equal tensor, private, writable if the one that was sent is."""
    succeed("ray_tensors.py", "copy", "on", env=ray_environment)
