"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import shmtensor._core as _core
from shmtensor.cli._sessions import find_sessions, observe
from shmtensor.errors import SessionError

__all__ = ["add_sessions", "is_called", "observe_sessions", "seconds"]

_LONGEST = 1e9  # seconds; time.sleep() accepts about ten times as many


def add_sessions(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the argument with the sessions that a command is for."""
    parser.add_argument(
        "sessions", nargs="*", metavar="SESSION", help=f"{what} (the first digits of an id, or a name)"
    )


class Observed(NamedTuple):
    """The sessions that a command is for."""

    seen: list[dict[str, Any]]
    missing: list[str]  # the wanted ones that do not exist
    problems: list[str]  # of those that do not answer


def observe_sessions(wanted: list[str]) -> Observed:
    """Observe the wanted sessions (none: all)."""
    seen: list[dict[str, Any]] = []
    problems: dict[str, str] = {}  # by session
    for session in find_sessions():
        if not wanted or any(is_called(session, text) for text in wanted):
            try:
                found = observe(session)
            except SessionError as error:
                problems[session] = str(error)
            else:
                seen += [] if found is None else [found]
    there = [*(one["session"] for one in seen), *problems]
    missing = [text for text in wanted if not any(is_called(session, text) for session in there)]
    return Observed(seen, missing, list(problems.values()))


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
