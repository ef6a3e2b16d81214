"""Stands in for pytest in processes that tests start, which import test modules for their functions.

Importing pytest takes 0.15 s of processor time. Marks and fixtures that do nothing suffice to define tests
there, and `raises` is simple; everything else is that of pytest.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def _unchanged(*arguments: Any, **_: Any) -> Any:
    """Return the function that is decorated; of a decorator with arguments, a decorator."""
    is_decorator = len(arguments) == 1 and callable(arguments[0])
    return arguments[0] if is_decorator else _unchanged


class _Marks:
    def __getattr__(self, name: str) -> Any:
        return _unchanged


mark = _Marks()
fixture = param = _unchanged


class raises:  # its name in pytest
    """Checks that the block raises such an error, with a message in which the pattern is found."""

    def __init__(
        self, expected: type[BaseException] | tuple[type[BaseException], ...], *, match: str = ""
    ) -> None:
        self._expected, self._match = expected, match

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        assert error is not None, f"{self._expected} was not raised"
        if not isinstance(error, self._expected):
            return False
        assert re.search(self._match, str(error)), f"{error!r} does not match {self._match!r}"
        self.value = error
        return True


@functools.cache
def _pytest() -> ModuleType:
    sys.path.remove(str(Path(__file__).parent))
    del sys.modules["pytest"]
    return importlib.import_module("pytest")


def __getattr__(name: str) -> Any:
    return getattr(_pytest(), name)
