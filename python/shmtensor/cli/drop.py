"""``shmtensor drop``: unpublish an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor.cli._arguments import add_name, change_name
from shmtensor.named_objects import unpublish

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "drop",
        help="unpublish an object, kept or not",
        description="Remove a name, as `unpublish` does: the memory of its object is freed when no process "
        "uses it. Exit status: 0; 1 if there is no such session or name.",
    )
    add_name(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    return change_name(options, unpublish, "dropped")
