"""``shmtensor ls``: the sessions of this user, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor._values import human_bytes
from shmtensor.cli._arguments import add_sessions, observe_sessions
from shmtensor.cli._output import add_json, echo, print_json, print_table
from shmtensor.cli._queues import show_queues

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
        "session does not exist.",
    )
    add_sessions(parser, "only these")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    seen, missing = observe_sessions(options.sessions)
    if options.json:
        print_json(seen)
    else:
        for one in seen:
            _show(one)
        for text in missing:
            echo(f"no session {text}")
        if not seen and not missing:
            echo("no sessions")
    return 1 if missing else 0


def _show(one: dict[str, Any]) -> None:
    live, reserved = one["bytes_live"], one["bytes_reserved"]
    idle = max(reserved - live, 0)
    name = "" if one["name"] is None else f" ({one['name']})"
    echo(f"session {one['session']}{name}: {human_bytes(live)} live, {human_bytes(idle)} idle")
    processes = [(p["slot"], p["pid"], p["command"][:70]) for p in one["processes"]]
    if processes:
        print_table(("slot", "PID", "command"), processes, "  ")
    arenas = [
        (
            a["arena"],
            "gone" if a["owner"] is None else a["owner"],
            a["strategy"],
            a["blocks"],
            human_bytes(a["bytes_live"]),
            human_bytes(max(a["bytes_reserved"] - a["bytes_live"], 0)),
        )
        for a in one["arenas"]
    ]
    if arenas:
        print_table(("arena", "owner", "strategy", "blocks", "live", "idle"), arenas, "  ")
    messages = [
        (m["sender"], m["pid"] or "gone", m["messages"], f"{m['age']} s", f"{m['arena']}/{m['block']}")
        for m in one["in_flight"]
    ]
    if messages:
        print_table(("in flight from", "PID", "messages", "age", "block"), messages, "  ")
    show_queues(one["queues"])
    names = [(n["name"], n["stage"], n["pid"] or "gone", f"{n['age']} s") for n in one["names"]]
    if names:
        print_table(("name", "stage", "by PID", "age"), names, "  ")
