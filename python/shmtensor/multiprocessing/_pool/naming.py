"""Names of what failed, for the texts of errors; objects of the program cannot raise here."""

from __future__ import annotations

import traceback
from functools import partial
from typing import Any

_LONGEST = 200


def name_of(function: Any) -> str:
    """Return a short name without arguments. A `repr` may take long, raise, or show secrets."""
    if issubclass(type(function), partial):
        return f"partial of {name_of(function.func)}"
    for attribute in ("__qualname__", "__name__"):
        try:
            name = getattr(function, attribute, None)
        except Exception:  # a `__getattr__` of the program
            break
        if isinstance(name, str):
            return name[:_LONGEST]
    return type(function).__qualname__[:_LONGEST]


def describe(error: BaseException) -> str:
    """Return the last line of a traceback, such as ``"ValueError: it is bad"``."""
    return "".join(traceback.format_exception_only(type(error), error)).strip()
