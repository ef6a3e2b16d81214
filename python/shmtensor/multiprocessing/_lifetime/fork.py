"""Forking a child of `multiprocessing`, without a moment in which its signals are the parent's."""

from __future__ import annotations

from multiprocessing import popen_fork

from shmtensor.multiprocessing._lifetime.signals import blocked, valid_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Popen(popen_fork.Popen):
    """The Popen of a Process object of the start method ``"fork"``.

    The child begins with all signals blocked: one that it received earlier would run the parent's handler,
    and be reported to the parent's event loop. The Process object unblocks them.
    """

    def _launch(self, process_obj: Any) -> None:
        with blocked(*valid_signals()) as process_obj._signal_mask:
            super()._launch(process_obj)  # type: ignore[misc]
            process_obj._popen = self  # a pending signal whose handler raises now kills the child
