"""What stands for a module of tests whose library is not installed: one skipped test with the reason."""

from __future__ import annotations

from typing import Any

import pytest


class NotInstalled(pytest.File):
    """A module that is not imported.

    Parameters
    ----------
    reason
        Why its tests are skipped.
    """

    def __init__(self, *, reason: str, **options: Any) -> None:
        super().__init__(**options)
        self.reason = reason

    def collect(self) -> list[pytest.Item]:
        return [_Skipped.from_parent(self, name="not_installed")]


class _Skipped(pytest.Item):
    def runtest(self) -> None:
        pytest.skip(self.parent.reason)

    def reportinfo(self) -> tuple[Any, int, str]:
        return self.path, 0, self.name
