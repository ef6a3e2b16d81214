"""``shmtensor doctor``: what this machine allows, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import shmtensor

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor", help="say what this machine allows, and what to change"
    )
    parser.set_defaults(run=_run)


def _run(_options: argparse.Namespace) -> int:
    report = shmtensor.doctor()
    print(report)  # noqa: T201
    return 0 if report.ok else 1
