"""Plants errors in the core, one at a time, and checks that the simulation finds each.

Each mutation changes one file in a copy of the tree: `make simulation-mutations`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 60


@dataclass(frozen=True)
class Mutation:
    name: str  # begins with how the names of the programs begin that run
    file: str
    changes: list[tuple[str, str]]  # lines that occur once, and what replaces them

    @property
    def programs(self) -> str:
        return self.name.partition(":")[0]

    def plant(self, text: str) -> str:
        """Return the file's text with the error; raise ValueError if the file has other lines."""
        original = text = f"\n{text}"
        for old, new in sorted(self.changes, key=lambda change: original.find(change[0]), reverse=True):
            if original.count(old) != 1:
                msg = f"{self.name}: {self.file} has {original.count(old)} times:{old}"
                raise ValueError(msg)
            at = original.index(old)
            text = text[:at] + new + text[at + len(old) :]
        return text[1:]


def mutations() -> list[Mutation]:
    """Return those in `mutations.diff`: a name, a file, and hunks as those of diff, without line numbers."""
    found = []
    for part in Path(__file__).with_suffix(".diff").read_text().rstrip("\n").split("\n\n"):
        name, file, *lines = part.split("\n")
        hunks = "\n".join(lines).split("\n@@\n")
        changes = [(lines_of(hunk, " -"), lines_of(hunk, " +")) for hunk in hunks]
        found.append(Mutation(name.removeprefix("# "), file, changes))
    return found


def lines_of(hunk: str, marks: str) -> str:
    return "".join(f"\n{line[1:]}" for line in hunk.split("\n") if line[0] in marks) + "\n"


class Copy:
    """A copy of the sources with a build of the simulation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.build = folder / "build"
        for name in ("csrc", "tests/cpp", "tests/simulation"):
            for path in (ROOT / name).rglob("*"):
                self._copy(path)
        self._copy(ROOT / "CMakeLists.txt")
        options = ["-DSHMTENSOR_PYTHON=OFF", "-DSHMTENSOR_SIMULATION=ON", "-DCMAKE_UNITY_BUILD=ON"]
        self._run("cmake", "-S", str(folder), "-B", str(self.build), *options)
        self.compile()

    def _copy(self, path: Path) -> None:
        """Copy what differs, so that the build knows: a run that was killed leaves its error planted."""
        to = self.folder / path.relative_to(ROOT)
        if path.is_file() and not (to.exists() and to.read_bytes() == path.read_bytes()):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)

    def compile(self) -> None:
        self._run("cmake", "--build", str(self.build), "--target", "shmtensor-simulation", "-j2")

    @staticmethod
    def _run(*command: str) -> None:
        done = subprocess.run(
            command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")

    def find(self, planted: Mutation) -> tuple[str, float]:
        """Return what the simulation reports of a planted error, and its time in seconds."""
        path = self.folder / planted.file
        original = path.read_text()
        path.write_text(planted.plant(original))
        try:
            self.compile()
            begin = time.monotonic()
            program = self.build / "tests/simulation/shmtensor-simulation"
            done = subprocess.run(
                [program, "--program", planted.programs, "--seconds", str(SECONDS), "--first-failure"],
                check=False,
                text=True,
                stdout=subprocess.PIPE,
                timeout=4 * SECONDS,
            )
            seconds = time.monotonic() - begin
        finally:
            path.write_text(original)
            os.utime(path)
        if done.returncode == 0:
            return "", seconds
        failed = re.search(r"^FAILED: (.*)|killed by signal \d+", done.stdout, re.MULTILINE)
        if failed is None:
            raise SystemExit(f"{planted.name}: the simulation did not run:\n{done.stdout[-4000:]}")
        again = re.search(r'--repeat ".*"', done.stdout)
        return f"{failed[1] or failed[0]} {again[0] if again else ''}", seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for the copy and its build")
    parser.add_argument("--only", default="", help="mutations whose names contain this")
    args = parser.parse_args()
    copy = Copy(args.folder.resolve())
    missed = 0
    for planted in mutations():
        if args.only not in planted.name:
            continue
        what, seconds = copy.find(planted)
        print(f"{'found' if what else 'MISSED':7}{seconds:6.1f} s  {planted.name}: {what}", flush=True)
        missed += not what
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
