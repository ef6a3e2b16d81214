"""``shmtensor ls``: the sessions of this user, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor._values import human_bytes
from shmtensor.cli._arguments import add_sessions, look_at
from shmtensor.cli._output import add_json, say, say_json, say_table

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "ls",
        help="list sessions, processes, arenas, messages in flight and names",
        description="List the sessions of this user: processes, arenas with live and idle bytes, messages in "
        "flight with sender and age, names. Takes no part in them. Exit status: 0; 1 if a session that was "
        "asked for is not there.",
    )
    add_sessions(parser, "only these")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    seen, missing = look_at(options.sessions)
    if options.json:
        say_json(seen)
    else:
        for one in seen:
            _show(one)
        for text in missing:
            say(f"no session {text}")
        if not seen and not missing:
            say("no sessions")
    return 1 if missing else 0


def _show(one: dict[str, Any]) -> None:
    live, reserved = one["bytes_live"], one["bytes_reserved"]
    idle = max(reserved - live, 0)
    say(f"session {one['session']}: {human_bytes(live)} live, {human_bytes(idle)} idle")
    processes = [(p["slot"], p["pid"], p["command"][:70]) for p in one["processes"]]
    if processes:
        say_table(("slot", "PID", "command"), processes, "  ")
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
        say_table(("arena", "owner", "strategy", "blocks", "live", "idle"), arenas, "  ")
    messages = [
        (m["sender"], m["pid"] or "gone", m["messages"], f"{m['age']} s", f"{m['arena']}/{m['block']}")
        for m in one["in_flight"]
    ]
    if messages:
        say_table(("in flight from", "PID", "messages", "age", "block"), messages, "  ")
    names = [(n["name"], n["stage"], n["pid"] or "gone", f"{n['age']} s") for n in one["names"]]
    if names:
        say_table(("name", "stage", "by PID", "age"), names, "  ")
