"""Runs torch's own tests of its multiprocessing, with and without the integration.

    python -m tests.torch_suite FILE [TEST ...]

FILE is `test/test_multiprocessing.py` of torch's sources, of the version that is installed; it needs
`expecttest`. Every test must do with the integration what it does without, but for what `differences.py` has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.cpython.__main__ import run_one
from tests.torch_suite.differences import DIFFERENCES

MODES = {
    "off": "",
    "on": 'import shmtensor; shmtensor.install("torch")',
    "alias": 'import shmtensor; shmtensor.install("torch", alias=True)',
}
SUITE = "TestMultiprocessing"

MODULE = """\
import sys
sys.path.insert(0, {folder!r})
{install}
from {module} import *
"""


def run(file: Path, mode: str, tests: list[str], deadline: float, log) -> dict[str, str]:
    """Return what each test did in a mode."""
    done: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        text = MODULE.format(folder=str(file.parent.resolve()), install=MODES[mode], module=file.stem)
        (Path(folder) / f"mode_{mode}.py").write_text(text)
        for name in [f"{SUITE}.{test}" for test in tests] or [SUITE]:
            found = run_one(Path(folder), f"mode_{mode}", name, deadline, log)
            done |= {test.rsplit(".", 1)[-1]: word for test, word in found.items()}
    return done


def judge(mode: str, off: dict[str, str], on: dict[str, str]) -> list[str]:
    """Return one line for each unexpected result of a mode."""
    known = DIFFERENCES[mode]
    differ = {test for test in off.keys() | on.keys() if off.get(test) != on.get(test)}
    wrong = [
        f"{mode}: {test} {on.get(test)}, without the integration {off.get(test)}"
        for test in differ - known.keys()
    ]
    equal = known.keys() & off.keys() - differ
    return sorted(wrong + [f"{mode}: {test} was expected to differ, and did not" for test in equal])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("tests", nargs="*", help="names of tests; none: all")
    parser.add_argument("--deadline", type=float, default=900, help="seconds for all tests of a mode")
    parser.add_argument("--log", type=Path, default=Path("build/torch-suite.log"))
    arguments = parser.parse_args()
    arguments.log.parent.mkdir(parents=True, exist_ok=True)
    wrong = []
    with open(arguments.log, "ab") as log:
        done = {mode: run(arguments.file, mode, arguments.tests, arguments.deadline, log) for mode in MODES}
    for mode, results in done.items():
        words = sorted(set(results.values()))
        print(f"{mode}:", ", ".join(f"{list(results.values()).count(word)} {word}" for word in words))
        wrong += judge(mode, done["off"], results) if mode != "off" else []
    print("\n".join(["wrong:", *wrong]) if wrong else f"as expected; the log is {arguments.log}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
