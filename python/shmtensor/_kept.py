"""What may be kept under a name when the last process of the session has ended."""

from __future__ import annotations

import os

import shmtensor._core as _core
from shmtensor._values import check_range
from shmtensor.errors import OutOfSharedMemory, SessionError

_BUDGET = "SHMTENSOR_KEEP_BYTES"


def keep_budget() -> int | None:
    """Return the bytes that may be kept, or None for no limit."""
    text = os.environ.get(_BUDGET)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        msg = f"{_BUDGET} must be a number of bytes, digits only: {text!r}"
        raise ValueError(msg)
    return int(text)


def kept_seconds(name: str, keep: bool | float) -> float:
    """Return for how many seconds without a process an object is to be kept."""
    seconds = float("inf") if keep is True else float(check_range("keep", keep, 0))
    # Another run's memory would stay although no program could find it, again with each run.
    if seconds and not _core.home_is_named():
        msg = (
            f"cannot keep {name!r}: no later program would find it, since session {_core.home_id()} is of "
            "this run of the program; set the environment variable SHMTENSOR_SESSION to the same text for "
            "this program and later ones"
        )
        raise SessionError(msg)
    return seconds


def check_kept(name: str, nbytes: int, external: bool) -> None:
    """Raise unless an object of so many bytes may be kept; `external`: other libraries' memory is in it."""
    if external:
        msg = (
            f"cannot keep {name!r}: it contains GPU memory of another library, which ends with its process; "
            "publish clones (st.asarray(x).clone())"
        )
        raise ValueError(msg)
    budget = keep_budget()
    if budget is None:
        return
    kept = sum(one["bytes"] for one in _core.names() if one["keep"] and one["name"] != name)
    if kept + nbytes > budget:
        msg = (
            f"cannot keep {name!r}, of {nbytes} bytes: {_BUDGET} is {budget}, and session {_core.home_id()} "
            f"keeps {kept} bytes already; raise it, or drop what `shmtensor ls` shows as kept"
        )
        raise OutOfSharedMemory(msg)
