"""The command line: ``shmtensor COMMAND`` or ``python -m shmtensor COMMAND``."""

from __future__ import annotations

import argparse
import io
import os
import select
import sys
from typing import TYPE_CHECKING

from shmtensor._version import __version__
from shmtensor.cli._output import complain
from shmtensor.errors import ShmTensorError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # labels and names may be of any language
    try:
        try:
            return _run(arguments)
        finally:
            print(end="", flush=True)  # noqa: T201  # also if there is no standard output
    except (OSError, ShmTensorError) as error:
        if not isinstance(error, BrokenPipeError) or not _reader_left():
            complain(f"shmtensor: {error}")
        try:
            print(end="", flush=True)  # noqa: T201
        except OSError:  # the flush of the buffer would fail again when the interpreter exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _reader_left() -> bool:
    if sys.stdout is None:
        return False
    watch = select.poll()
    watch.register(sys.stdout, 0)
    return any(event & select.POLLERR for _, event in watch.poll(0))


def _run(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="shmtensor", description="Shared-memory tensors for Python multiprocessing."
    )
    parser.add_argument("--version", action="version", version=f"shmtensor {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # Each command is one module that adds its own arguments; only the command that runs imports the rest.
    from shmtensor.cli import doctor, drop, gc, keep, ls, top

    for command in (doctor, drop, gc, keep, ls, top):
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code
