"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from typing import Any

import shmtensor._core as _core
from shmtensor.cli._sessions import find_sessions, observe

__all__ = ["add_sessions", "count", "is_called", "observe_sessions", "seconds"]

_LONGEST = 1e9  # seconds; time.sleep() accepts about ten times as many


def add_sessions(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the argument with the sessions that a command is for."""
    parser.add_argument(
        "sessions", nargs="*", metavar="SESSION", help=f"{what} (the first digits of an id, or a name)"
    )


def observe_sessions(wanted: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the contents of the wanted sessions (none: of all), and the wanted ones that do not exist."""
    seen = [
        found
        for session in find_sessions()
        if not wanted or any(is_called(session, text) for text in wanted)
        if (found := observe(session)) is not None
    ]
    missing = [text for text in wanted if not any(is_called(one["session"], text) for one in seen)]
    return seen, missing


def is_called(session: str, text: str) -> bool:
    """Return True if the text is the name of the session, or the beginning of its id."""
    return session.startswith(text.lower()) or session == _core.session_named(text)


def seconds(text: str) -> float:
    """Convert an argument to seconds; for ``type=``."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= _LONGEST:
        msg = f"invalid number of seconds, from 0 to {_LONGEST:g}: {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return value


def count(text: str) -> int:
    """Convert an argument to a count; for ``type=``."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        msg = f"must be a positive integer: {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return value
