"""Names of parameters."""

from __future__ import annotations

import re


def short_repr(value: object, most: int = 40) -> str:
    """What `repr` says, without addresses: runs side by side must give a test the same name."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:most]
