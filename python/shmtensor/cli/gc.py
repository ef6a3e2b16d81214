"""``shmtensor gc``: free what no process can reach."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor.cli._arguments import Observed, add_sessions, is_called, observe_sessions, seconds
from shmtensor.cli._output import add_json, echo, print_json, show
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
        "--older-than, also discard unread messages of the given sessions, or of --all, from that age on, "
        "and free the memory that only they held. Memory that a living process holds, and published "
        "objects, stay. Exit status: 0; 1 if a given session does not exist or answer.",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would be freed")
    parser.add_argument(
        "--older-than", type=seconds, metavar="SECONDS", help="discard unread messages of at least that age"
    )
    parser.add_argument(
        "--all", action="store_true", help="discard messages of all sessions, other programs' included"
    )
    add_sessions(parser, "discard messages of these")
    add_json(parser)
    parser.set_defaults(run=partial(_run, parser))


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.older_than is not None and bool(options.sessions) == options.all:
        parser.error("--older-than discards messages that programs may still read: name sessions, or --all")
    names = _core.sweep_names(options.dry_run)
    discard = options.older_than is not None
    seen, missing, problems = (
        observe_sessions(options.sessions) if discard or options.sessions else Observed([], [], [])
    )
    missing = [text for text in missing if not any(is_called(_session_of(name), text) for name in names)]
    failed = bool(missing or (options.sessions and problems))
    discarded = {}
    if discard:
        for one in seen:
            count = _discard(one, options.older_than, options.dry_run)
            if count:
                discarded[one["session"]] = count
    if options.json:
        print_json({"dry_run": options.dry_run, "names": names, "messages": discarded})
        return int(failed)
    for name in names:
        echo(f"{'would remove' if options.dry_run else 'removed'} /dev/shm/{name}")
    for session, count in discarded.items():
        verb = "would discard" if options.dry_run else "discarded"
        echo(f"{verb} {count} {'message' if count == 1 else 'messages'} of session {session}")
    show([*problems, *(f"no session {text}" for text in missing)])
    if not names and not discarded and not missing and not problems:
        echo("nothing to remove")
    return int(failed)


def _session_of(name: str) -> str:
    """Return the id of the session in the name of a segment, ``shmtensor-ID...``."""
    return name.removeprefix("shmtensor-")[:_ID_DIGITS]


def _discard(seen: dict[str, Any], older_than: float, dry_run: bool) -> int:
    if not dry_run:
        try:
            return _core.collect_session(seen["session"], older_than)
        except (SessionError, OSError):
            return 0  # of another version
    return sum(one["messages"] for one in seen["in_flight"] if one["age"] >= older_than)
