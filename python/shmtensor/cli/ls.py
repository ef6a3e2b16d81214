"""``shmtensor ls``: the sessions of this user, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor.cli import _tables
from shmtensor.cli._arguments import add_sessions, no_session, observe_sessions
from shmtensor.cli._output import add_json, complain, echo, print_json, show

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "ls",
        help="list sessions, processes, arenas, unread messages, queues and names",
        description="List the sessions of this user: processes, arenas with live and idle bytes, unread "
        "messages with sender and age, queues, names. Does not join them. Exit status: 0; 1 if a given "
        "session does not exist or answer.",
    )
    add_sessions(parser, "only these")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    seen, missing, problems = observe_sessions(options.sessions)
    if options.json:
        print_json(seen)
    else:
        for one in seen:
            show(
                (
                    _tables.title(one),
                    _tables.processes(one),
                    _tables.arenas(one),
                    _tables.messages(one),
                    _tables.queues(one),
                    _tables.names(one),
                )
            )
        if not seen and not missing and not problems:
            echo("no sessions")
    complain(*problems, *map(no_session, missing))
    return int(bool(missing or (options.sessions and problems)))
