"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from typing import Any

from shmtensor.cli._sessions import find_sessions, observe

__all__ = ["add_sessions", "count", "observe_sessions", "seconds"]

_LONGEST = 1e9  # seconds; time.sleep() accepts about ten times as many


def add_sessions(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the argument with the sessions that a command is for."""
    parser.add_argument(
        "sessions", nargs="*", type=str.lower, metavar="SESSION", help=f"{what} (a prefix is sufficient)"
    )


def observe_sessions(wanted: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the contents of the wanted sessions (none: of all), and the wanted ones that do not exist."""
    seen = [
        found
        for session in find_sessions()
        if not wanted or session.startswith(tuple(wanted))
        if (found := observe(session)) is not None
    ]
    missing = [text for text in wanted if not any(one["session"].startswith(text) for one in seen)]
    return seen, missing


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
