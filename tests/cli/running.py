"""Runs a command of `shmtensor` in this process."""

from __future__ import annotations

from shmtensor.cli import main

__all__ = ["fail", "run"]


def run(capsys, *words: str) -> tuple[int, str]:
    """Return the exit status of a command, and what it printed."""
    capsys.readouterr()
    code = main(words)
    return code, capsys.readouterr().out


def fail(capsys, *words: str) -> tuple[int, str]:
    """Return the exit status of a command, and what it printed to standard error."""
    capsys.readouterr()
    code = main(words)
    return code, capsys.readouterr().err
