"""Run tests of CuPy, from its source distribution, by the names of their files; print the result of each."""

from __future__ import annotations

import faulthandler
import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest

SECONDS = 100
SOURCE = Path("build/cupy", f"cupy-{importlib.metadata.version('cupy-cuda12x')}")
TESTS = SOURCE / "tests/cupy_tests"


class Results:
    """Prints what pytest reports."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.replace(" ", "")
        if report.failed:
            print("\nfailed", name, report.longreprtext.strip().splitlines()[-1])
        elif report.when == "call" and report.passed:
            print("\npassed", name)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    options = ["-c", str(SOURCE / "pyproject.toml"), f"--rootdir={TESTS}", "-p", "no:cacheprovider"]
    sys.exit(pytest.main([*options, *(str(TESTS / name) for name in sys.argv[1:])], [Results()]))
