"""How often processes are killed at a fault point."""

from __future__ import annotations

import os
from pathlib import Path

SECONDS = 100.0


def make_tokens(times: int) -> str:
    """Allow so many kills; return the folder, where each kill removes a file."""
    tokens = os.environ["SHMTENSOR_FAULT_TOKENS"]
    for i in range(times):
        Path(tokens, str(i)).touch()
    return tokens
