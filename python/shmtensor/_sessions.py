"""The sessions on this machine, observed from outside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import shmtensor._core as _core
from shmtensor._procfs import command_line, initial_variable
from shmtensor._values import NO_LIMIT

_NAME = re.compile(r"@shmtensor-([0-9a-f]{32})$")


def find_sessions() -> list[str]:
    """Return the ids of sessions in the runtime directory, or else of those of any user with a manager."""
    directory = _core.runtime_directory()
    try:
        if directory is None:
            lines = Path("/proc/net/unix").read_text().splitlines()
        else:
            lines = [f"@{path.name}" for path in Path(directory).iterdir()]
    except OSError:
        return []
    found = {match[1] for line in lines if (match := _NAME.search(line))}
    return sorted(found)


def observe(session: str) -> dict[str, Any] | None:
    """Return the contents of a session, or None if it has ended or belongs to another user.

    Does not join the session, and keeps nothing of it alive.

    Raises
    ------
    SessionError
        If its manager does not answer, or has another version.
    """
    try:
        seen: dict[str, Any] | None = _core.observe(session)
    except OSError:
        return None
    if seen is not None:
        for process in seen["processes"]:
            process["command"] = command_line(process["pid"])
        for queue in seen["queues"]:
            if queue["max_bytes"] >= NO_LIMIT:
                queue["max_bytes"] = 0
        seen["name"] = _name(seen)
    return seen


def _name(seen: dict[str, Any]) -> str | None:
    """Return the text of SHMTENSOR_SESSION by which a process joined; None if there is none."""
    for process in seen["processes"]:
        text = initial_variable(process["pid"], "SHMTENSOR_SESSION")
        if text and text != seen["session"] and _core.session_named(text) == seen["session"]:
            return text
    return None
