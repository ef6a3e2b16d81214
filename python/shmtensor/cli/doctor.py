"""``shmtensor doctor``: what this machine allows, and what to change."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor.cli._output import add_json, say, say_json

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="say what this machine allows, and what to change",
        description="Look at the kernel and limits. Exit status: 0 if all is well, 1 if something is to be "
        "looked at.",
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    report = shmtensor.doctor()
    if options.json:
        say_json({"ok": report.ok, "findings": [asdict(finding) for finding in report]})
    else:
        say(str(report))
    return 0 if report.ok else 1
