"""Names of parameters."""

from __future__ import annotations

import re


def short_repr(value: object) -> str:
    """Return `repr(value)` without addresses: parallel workers must give a test the same name."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:40]
