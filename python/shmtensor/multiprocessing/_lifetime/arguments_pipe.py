"""A pipe whose reading end is open as long as a child may still load its arguments.

The standard library chooses how the pickled arguments reach the child. This pipe, in which nothing is
written, represents that way: the child has the reading end from its first instruction until it has loaded
them. If parent and child are killed before, no reading end is left, and the manager releases the tensors.
"""

from __future__ import annotations

import os
from multiprocessing import reduction

from shmtensor._fork import Descriptor, no_fork, reset_in_forked_children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ArgumentsPipe"]


class ArgumentsPipe:
    """The pipe of one child. It is pickled with the Process object."""

    def __init__(self) -> None:
        import shmtensor._core as _core  # which the child, that imports this module, too, may not need

        with no_fork():
            reader, writer = os.pipe()
            self._reader = Descriptor(reader)
            reset_in_forked_children(self)
            os.close(writer)
        self.outgoing = _core.OutgoingPipe(reader)

    def __reduce__(self) -> Any:
        return _reading_end, (reduction.DupFd(self._reader.fileno()),)

    def close(self) -> None:
        """Close the reading end of this process."""
        self._reader.close()

    reset_in_child = close


def _reading_end(duplicate: Any) -> Descriptor:
    return Descriptor(duplicate.detach())
