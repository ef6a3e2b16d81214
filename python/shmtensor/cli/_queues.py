"""The table of queues, for `ls` and `top`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor.cli._output import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["show_queues"]

_HEAD = ("queue", "state", "messages", "limit", "put", "processes", "readers", "rings", "waiting")


def show_queues(queues: Sequence[dict[str, Any]]) -> None:
    """Print the queues of a session, as `observe` returns them."""
    rows = [
        (
            f"{q['arena']}/{q['block']}",
            q["state"],
            q["messages"],
            q["limit"] or "none",
            q["put"],
            q["processes"],
            "" if q["readers"] is None else q["readers"],
            q["rings"] or "",
            ", ".join(side for side in ("get", "put") if q[f"waits_to_{side}"]),
        )
        for q in queues
    ]
    if rows:
        print_table(_HEAD, rows, "  ")
