"""Whether another process can map this one's memory: both know what only members of one session know."""

from __future__ import annotations

import shmtensor._core as _core
from shmtensor._log import log_warning
from shmtensor.errors import ShmTensorError

_withdrawn = False


def proof() -> str | None:
    """Return a text that is the same in all processes of this session, and in no other; None without session.

    It follows from a random key in the session's memory. So processes of another host, user, container or
    network namespace have another one, also if they have chosen the same name for their session.
    """
    if not _withdrawn:
        try:
            return _core.home_proof()
        except (ShmTensorError, OSError) as error:
            withdraw(error)
    return None


def withdraw(error: Exception) -> None:
    """Return no proof any more, because this process cannot use shared memory."""
    global _withdrawn
    _withdrawn = True
    log_warning(
        __name__, "Dask sends and receives without shared memory in connections from now on: %s", error
    )
