"""The exceptions of queues that were shut down or closed."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 13):
    from queue import ShutDown
else:

    class ShutDown(Exception):  # noqa: N818  # named as the class of Python 3.13
        """Raised by a queue that was shut down; from Python 3.13 on, this is `queue.ShutDown`."""

        __module__ = "shmtensor"


class QueueClosed(OSError, ValueError):  # noqa: N818  # as ShutDown
    """Raised by a queue that was closed in this process.

    In the standard library, that is ValueError for `Queue`, OSError for `SimpleQueue` and `Queue.empty`.
    """
