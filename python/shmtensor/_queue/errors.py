"""The exception of a queue that was shut down."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 13):
    from queue import ShutDown
else:

    class ShutDown(Exception):  # noqa: N818  # named as the class of Python 3.13
        """Raised by a queue that was shut down; from Python 3.13 on, this is `queue.ShutDown`."""


__all__ = ["ShutDown"]
