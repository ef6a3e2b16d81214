"""``python -m shmtensor``."""

from __future__ import annotations

import sys

from shmtensor.cli import main

if __name__ == "__main__":
    sys.exit(main())
