"""An ordinary program: a file in `programs` that runs with the standard library and with the drop-in.

A program imports `multiprocessing`, takes the start method from its first argument, and prints its results.
Comments in its first lines direct the tests:

- ``# methods: fork spawn``: the start methods, if not all;
- ``# not compared: the standard library hangs``: only the drop-in runs it, with any reason. The lines that it
  must print follow at the end of the file, each after ``# > ``;
- ``# needs: pandas``: modules that it imports;
- ``# executor: breaks``: it is not run with the executor of this package, with any reason.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.helpers.children import run_command

__all__ = ["METHODS", "PROGRAMS", "Program"]

METHODS = ("fork", "spawn", "forkserver", "server")
FOLDER = Path(__file__).with_name("programs")
_IMPORT = re.compile(r"^( *)(import|from) multiprocessing\b", flags=re.MULTILINE)
_EXECUTOR = re.compile(r"^from concurrent\.futures import(?= ProcessPoolExecutor$)", flags=re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A program of the folder."""

    path: Path

    @property
    def name(self) -> str:
        """The wish of its users, and what it does: ``run_tasks/two_executors``."""
        return str(self.path.relative_to(FOLDER).with_suffix(""))

    @cached_property
    def text(self) -> str:
        """The source."""
        return self.path.read_text()

    @property
    def methods(self) -> tuple[str, ...]:
        """The start methods with which it runs."""
        return tuple((self._directive("methods") or " ".join(METHODS)).split())

    @property
    def needs(self) -> list[str]:
        """The modules that it imports and that may be missing."""
        return (self._directive("needs") or "").split()

    @property
    def has_executor(self) -> bool:
        """Return True if it is run with the executor of this package, too."""
        return _EXECUTOR.search(self.text) is not None and self._directive("executor") is None

    @property
    def is_compared(self) -> bool:
        """Return True if the standard library gives the right result, too."""
        return self._directive("not compared") is None

    @property
    def expected(self) -> str:
        """What it must print, if it is not compared."""
        return "".join(f"{line}\n" for line in re.findall(r"^# > ?(.*)$", self.text, flags=re.MULTILINE))

    def _directive(self, word: str) -> str | None:
        found = re.search(rf"^# {word}: (.+)$", self.text, flags=re.MULTILINE)
        return found and found[1]

    def run_standard(self, method: str) -> subprocess.CompletedProcess[str]:
        """Run it with the standard library, which has no "server": with spawn in its place."""
        return self._run(self.path, "spawn" if method == "server" else method)

    def run_drop_in(self, method: str, folder: Path, *, executor: bool) -> subprocess.CompletedProcess[str]:
        """Run it with its import changed, or also that of the executor; write that into the folder."""
        path = folder / self.path.name
        text = changed(self.text)
        path.write_text(_EXECUTOR.sub("from shmtensor.futures import", text) if executor else text)
        return self._run(path, method)

    @staticmethod
    def _run(path: Path, method: str) -> subprocess.CompletedProcess[str]:
        return run_command([sys.executable, str(path), method], timeout=100)


def changed(text: str) -> str:
    """Return a program that imports the drop-in."""
    text = _IMPORT.sub(r"\1\2 shmtensor.multiprocessing", text)
    return re.sub(
        r"^( *import shmtensor\.multiprocessing)$", r"\1 as multiprocessing", text, flags=re.MULTILINE
    )


PROGRAMS = [Program(path) for path in sorted(FOLDER.glob("*/*.py"))]
