"""Attributes of other libraries that an integration replaces."""

from __future__ import annotations

from typing import Any

_MISSING = object()


class Replacements:
    """What was replaced, to be restored."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class or module, which may not have it yet."""
        self._replaced.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def restore(self) -> None:
        """Restore all attributes, the last first."""
        while self._replaced:
            owner, name, value = self._replaced.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
