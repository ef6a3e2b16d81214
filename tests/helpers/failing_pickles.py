"""Objects whose pickling or unpickling raises."""

from __future__ import annotations

from typing import Any


class FailsToLoad:
    """Is pickled, and cannot be unpickled."""

    def __reduce__(self) -> Any:
        return fail, ()


class FailsToPickle:
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise RuntimeError("on purpose")


def fail() -> None:
    raise RuntimeError("on purpose")
