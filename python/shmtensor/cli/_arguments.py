"""What several commands take as arguments."""

from __future__ import annotations

import argparse
from typing import Any

from shmtensor.cli._sessions import find_sessions, observe

__all__ = ["add_sessions", "count", "look_at", "seconds"]

_LONGEST = 1e9  # seconds; what sleeps takes no more than ten times that


def add_sessions(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the sessions that a command is about."""
    parser.add_argument(
        "sessions", nargs="*", type=str.lower, metavar="SESSION", help=f"{what} (first digits will do)"
    )


def look_at(wanted: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what the wanted sessions have, or all of this user's; and what was wanted and is not there."""
    seen = [
        found
        for session in find_sessions()
        if not wanted or session.startswith(tuple(wanted))
        if (found := observe(session)) is not None
    ]
    missing = [text for text in wanted if not any(one["session"].startswith(text) for one in seen)]
    return seen, missing


def seconds(text: str) -> float:
    """Read a time; for ``type=``."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= _LONGEST:
        msg = f"{text!r} is no time in seconds, from 0 to {_LONGEST:g}"
        raise argparse.ArgumentTypeError(msg)
    return value


def count(text: str) -> int:
    """Read how often, or how many; for ``type=``."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        msg = f"{text!r} is no whole number from 1 on"
        raise argparse.ArgumentTypeError(msg)
    return value
