"""What `ls` and `top` show of a session, from what `observe` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor._values import human_bytes
from shmtensor.cli._output import Table

if TYPE_CHECKING:
    from shmtensor.cli._rates import Rates

COMMAND = 70  # characters of a command line that are shown


def title(one: dict[str, Any]) -> str:
    """Return the line above the tables of a session."""
    live, reserved = one["bytes_live"], one["bytes_reserved"]
    name = "" if one["name"] is None else f" ({one['name']})"
    idle = max(reserved - live, 0)
    return f"session {one['session']}{name}: {human_bytes(live)} live, {human_bytes(idle)} idle"


def processes(one: dict[str, Any]) -> Table:
    """Return the table of processes."""
    rows = [(p["slot"], p["pid"], task(p["busy"]), p["command"][:COMMAND]) for p in one["processes"]]
    return Table(("slot", "PID", "task", "command"), rows)


def task(age: int | None) -> str:
    """Return how long a process has run its task; nothing if it runs none."""
    return "" if age is None else f"{age} s"


def arenas(one: dict[str, Any]) -> Table:
    """Return the table of arenas."""
    rows = [
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
    return Table(("arena", "owner", "strategy", "blocks", "live", "idle"), rows)


def messages(one: dict[str, Any]) -> Table:
    """Return the table of unread messages outside of queues."""
    rows = [
        (m["sender"], m["pid"] or "gone", m["messages"], f"{m['age']} s", f"{m['arena']}/{m['block']}")
        for m in one["in_flight"]
    ]
    return Table(("unread, from", "PID", "messages", "age", "block"), rows)


def queues(one: dict[str, Any], rates: Rates | None = None) -> Table:
    """Return the table of queues; with rates, it has columns for them."""
    head = ["queue", "label", "state", "messages", "limit", "bytes", "max bytes", "put", "processes"]
    head += ["readers", "rings", "waiting"]
    after = head.index("put") + 1
    rows = [
        [
            f"{q['arena']}/{q['block']}",
            q["label"],
            q["state"],
            q["messages"],
            q["limit"] or "none",
            human_bytes(q["bytes"]),
            human_bytes(q["max_bytes"]) if q["max_bytes"] else "none",
            q["put"],
            q["processes"],
            "" if q["readers"] is None else q["readers"],
            q["rings"] or "",
            ", ".join(side for side in ("get", "put") if q[f"waits_to_{side}"]),
        ]
        for q in one["queues"]
    ]
    if rates is not None:
        head[after:after] = "put/s", "taken/s"
        for row, queue in zip(rows, one["queues"], strict=True):
            row[after:after] = rates.of(one["session"], queue)
    return Table(head, rows)


def names(one: dict[str, Any]) -> Table:
    """Return the table of names."""
    rows = [
        (n["name"], n["stage"], n["pid"] or "gone", f"{n['age']} s", human_bytes(n["bytes"]), kept(n))
        for n in one["names"]
    ]
    return Table(("name", "stage", "by PID", "age", "bytes", "kept"), rows)


def kept(name: dict[str, Any]) -> str:
    """Return for how long an object stays without a process; nothing if it does not."""
    if name["left"] is not None:
        return f"{name['left']:.0f} s more"
    return "until dropped" if name["keep"] is True else f"{name['keep']:g} s" if name["keep"] else ""
