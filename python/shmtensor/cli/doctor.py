"""``shmtensor doctor``: check the capabilities of this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor.cli._output import add_json, echo, print_json

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="check system capabilities",
        description="Check the kernel and the limits for what shmtensor needs, and name the remedies. Exit "
        "status: 0; 1 if a check fails.",
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    report = shmtensor.doctor()
    if options.json:
        print_json({"ok": report.ok, "findings": [asdict(finding) for finding in report]})
    else:
        echo(str(report))
    return 0 if report.ok else 1
