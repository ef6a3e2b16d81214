"""The hook by which PyInstaller finds what a program needs of this package: entry point `pyinstaller40`."""

from __future__ import annotations

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """Return the folder that PyInstaller searches for hooks."""
    return [str(Path(__file__).parent)]
