"""``shmtensor gc``: remove what sessions that were killed have left in /dev/shm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor import _core

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "gc",
        help="remove what killed sessions have left in /dev/shm",
        description="Remove the named segments of sessions of which no process and no manager is left. "
        "What a living process has mapped stays.",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    names = _core.sweep_names(options.dry_run)
    for name in names:
        print(f"{'would remove' if options.dry_run else 'removed'} /dev/shm/{name}")  # noqa: T201
    if not names:
        print("nothing to remove")  # noqa: T201
    return 0
