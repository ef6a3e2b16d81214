"""Run tests of numba-cuda by name; print the result of each."""

from __future__ import annotations

import faulthandler
import sys
import unittest
from typing import Any

SECONDS = 100


class Result(unittest.TextTestResult):
    def addSuccess(self, test: Any) -> None:
        super().addSuccess(test)
        print("passed", test.id().removeprefix("numba.cuda.tests."))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    names = [f"numba.cuda.tests.{name}" for name in sys.argv[1:]]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(stream=sys.stderr, resultclass=Result).run(suite)
    for test, trace in (*result.failures, *result.errors):
        print("failed", test.id().removeprefix("numba.cuda.tests."), trace.strip().splitlines()[-1])
