"""``shmtensor gc``: free what no process can reach."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor.cli._arguments import (
    Observed,
    add_sessions,
    is_called,
    no_session,
    observe_sessions,
    seconds,
)
from shmtensor.cli._output import add_json, complain, echo, print_json
from shmtensor.errors import SessionError

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]

_ID_DIGITS = 32


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "gc",
        help="free the memory of killed sessions, and unread messages",
        description="Remove the named segments of sessions without a process and a manager. With "
        "--older-than, also cancel unread messages of the given sessions, or of --all, from that age on, "
        "and free the memory that only they held. Memory that a living process holds, and published "
        "objects, stay. Exit status: 0; 1 if a given session does not exist or answer.",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would be freed")
    parser.add_argument(
        "--older-than", type=seconds, metavar="SECONDS", help="cancel unread messages of at least that age"
    )
    parser.add_argument(
        "--all", action="store_true", help="cancel messages of all sessions, other programs' included"
    )
    add_sessions(parser, "cancel messages of these")
    add_json(parser)
    parser.set_defaults(run=partial(_run, parser))


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.older_than is not None and bool(options.sessions) == options.all:
        parser.error("--older-than cancels messages that programs may still read: name sessions, or --all")
    cancel = options.older_than is not None
    observed = observe_sessions(options.sessions) if cancel or options.sessions else Observed([], [], [])
    unclear = [problem for text in options.sessions if (problem := observed.unclear(text)) is not None]
    if cancel and unclear:
        complain(*unclear)
        return 1
    seen, missing, problems = observed
    names = _core.sweep_names(options.dry_run)
    missing = [text for text in missing if not any(is_called(_session_of(name), text) for name in names)]
    failed = bool(missing or (options.sessions and problems))
    cancelled = {}
    if cancel:
        for one in seen:
            count = _cancel(one, options.older_than, options.dry_run)
            if count:
                cancelled[one["session"]] = count
    if options.json:
        print_json({"dry_run": options.dry_run, "names": names, "messages": cancelled})
    else:
        for name in names:
            echo(f"{'would remove' if options.dry_run else 'removed'} /dev/shm/{name}")
        for session, count in cancelled.items():
            verb = "would cancel" if options.dry_run else "cancelled"
            echo(f"{verb} {count} {'message' if count == 1 else 'messages'} of session {session}")
        if not names and not cancelled and not missing and not problems:
            echo("nothing to remove")
    complain(*problems, *map(no_session, missing))
    return int(failed)


def _session_of(name: str) -> str:
    """Return the id of the session in the name of a segment, ``shmtensor-ID...``."""
    return name.removeprefix("shmtensor-")[:_ID_DIGITS]


def _cancel(seen: dict[str, Any], older_than: float, dry_run: bool) -> int:
    if not dry_run:
        try:
            return _core.collect_session(seen["session"], older_than)
        except (SessionError, OSError):
            return 0  # of another version
    return sum(one["messages"] for one in seen["in_flight"] if one["age"] >= older_than)
