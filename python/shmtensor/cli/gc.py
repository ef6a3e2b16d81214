"""``shmtensor gc``: free what nobody can reach any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor.cli._arguments import add_sessions, look_at, seconds
from shmtensor.cli._output import add_json, say, say_json
from shmtensor.errors import SessionError

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "gc",
        help="free what killed sessions left, and messages that nobody will read",
        description="Remove the named segments of sessions of which no process and no manager is left. With "
        "--older-than, also forget messages of living sessions that nobody has read for so long, and free "
        "what only they held. What a living process holds, and what is published under a name, stays. "
        "Exit status: 0; 1 if a session that was asked for is not there.",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be freed")
    parser.add_argument(
        "--older-than", type=seconds, metavar="SECONDS", help="forget unread messages of at least that age"
    )
    add_sessions(parser, "forget messages of these only")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    names = _core.sweep_names(options.dry_run)
    forget = options.older_than is not None
    seen, missing = look_at(options.sessions) if forget or options.sessions else ([], [])
    missing = [text for text in missing if not any(name.startswith(f"shmtensor-{text}") for name in names)]
    forgotten = {}
    if forget:
        for one in seen:
            count = _forget(one, options.older_than, options.dry_run)
            if count:
                forgotten[one["session"]] = count
    if options.json:
        say_json({"dry_run": options.dry_run, "names": names, "messages": forgotten})
        return 1 if missing else 0
    for name in names:
        say(f"{'would remove' if options.dry_run else 'removed'} /dev/shm/{name}")
    for session, count in forgotten.items():
        verb = "would forget" if options.dry_run else "forgot"
        say(f"{verb} {count} {'message' if count == 1 else 'messages'} of session {session}")
    for text in missing:
        say(f"no session {text}")
    if not names and not forgotten and not missing:
        say("nothing to remove")
    return 1 if missing else 0


def _forget(seen: dict[str, Any], older_than: float, dry_run: bool) -> int:
    if not dry_run:
        try:
            return _core.collect_session(seen["session"], older_than)
        except (SessionError, OSError):
            return 0  # another user's, or another version's
    return sum(one["messages"] for one in seen["in_flight"] if one["age"] >= older_than)
