"""Programs that these tests run as scripts: libraries pickle functions of `__main__` by value."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.children import importing_tests, output, run_program

PROGRAMS = Path(__file__).parent


def succeed(name: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Run a program, which can import the tests and must succeed, and return what it prints."""
    env = importing_tests() | (env or {})
    return output(run_program(PROGRAMS / name, *arguments, timeout=110, env=env))
