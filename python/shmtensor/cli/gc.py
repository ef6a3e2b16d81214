"""``shmtensor gc``: free what nobody can reach any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor import _core
from shmtensor._sessions import find_sessions, observe
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
        "Exit status: 0.",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be freed")
    parser.add_argument(
        "--older-than", type=_seconds, metavar="SECONDS", help="forget unread messages of at least that age"
    )
    parser.add_argument(
        "sessions", nargs="*", metavar="SESSION", help="forget messages of these only (first digits will do)"
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds >= 0:
        msg = f"an age is not negative: {text}"
        raise ValueError(msg)
    return seconds


def _run(options: argparse.Namespace) -> int:
    names = _core.sweep_names(options.dry_run)
    forgotten = {}
    if options.older_than is not None:
        for session in find_sessions():
            if options.sessions and not session.startswith(tuple(options.sessions)):
                continue
            count = _forget(session, options.older_than, options.dry_run)
            if count:
                forgotten[session] = count
    if options.json:
        say_json({"dry_run": options.dry_run, "names": names, "messages": forgotten})
        return 0
    for name in names:
        say(f"{'would remove' if options.dry_run else 'removed'} /dev/shm/{name}")
    for session, count in forgotten.items():
        verb = "would forget" if options.dry_run else "forgot"
        say(f"{verb} {count} {'message' if count == 1 else 'messages'} of session {session}")
    if not names and not forgotten:
        say("nothing to remove")
    return 0


def _forget(session: str, older_than: float, dry_run: bool) -> int:
    if not dry_run:
        try:
            return _core.collect_session(session, older_than)
        except (SessionError, OSError):
            return 0  # another user's, or another version's
    seen = observe(session)
    messages = seen["in_flight"] if seen else []
    return sum(one["messages"] for one in messages if one["age"] >= older_than)
