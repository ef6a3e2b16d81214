"""Print what a release lacks: `python -m wheels.release`; the exit status is 0 if it lacks nothing."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from wheels.check import problems
from wheels.targets import ROOT, targets, version

__all__ = ["missing"]


def missing(dist: Path, root: Path = ROOT) -> Iterator[str]:
    """Yield what is to be done before the version can be released."""
    number = version(root)
    heading = re.search(r"^## \[(.*)\] \N{EN DASH} (.*)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading is not None
    if heading[1] != number:
        yield f"CHANGELOG.md begins with version {heading[1]} instead of {number}"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", heading[2]):
        yield f"CHANGELOG.md has no date of the release, but: {heading[2]}"
    for target in targets():
        wheel = dist / target.wheel(number)
        if wheel.exists():
            yield from (f"{wheel.name}: {problem}" for problem in problems(wheel))
        else:
            yield f"{wheel} is missing: make wheels"
    sdist = dist / f"shmtensor-{number}.tar.gz"
    if not sdist.exists():
        yield f"{sdist} is missing: make wheels"
    yield from _of_repository(f"v{number}", root)


def _of_repository(tag: str, root: Path) -> Iterator[str]:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()

    if git("status", "--porcelain"):
        yield "files differ from the last commit"
    if not git("tag", "--list", tag):
        yield f"the tag {tag} is missing: git tag {tag}"
    elif git("rev-list", "-n1", tag) != git("rev-parse", "HEAD"):
        yield f"the tag {tag} is that of another commit"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wheels.release", description=__doc__.partition(":")[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder of the wheels")
    found = list(missing(parser.parse_args().dist))
    print("\n".join(found) or f"{version()} can be released")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
