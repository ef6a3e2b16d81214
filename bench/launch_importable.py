"""A function that workers of `launch_program.py` can import."""

from __future__ import annotations


def nothing() -> None:
    pass
