"""``shmtensor keep``: keep a published object for later programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor.cli._arguments import add_name, change_name, seconds
from shmtensor.named_objects import keep

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "keep",
        help="keep a published object when the last process of its session has ended",
        description="Keep the object that is published under a name when the last process of the session has "
        "ended, as `publish(..., keep=True)` does. Exit status: 0; 1 if there is no such session or object, "
        "or it cannot be kept.",
    )
    add_name(parser)
    parser.add_argument(
        "--seconds", type=seconds, default=float("inf"), help="at most so long without a process"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    return change_name(options, lambda name: keep(name, options.seconds), "keeps")
