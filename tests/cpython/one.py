"""Runs one test class and writes the result of each test: `one.py FOLDER MODULE CLASS RESULTS`.

Without a class it prints the names of the module's classes.
"""

from __future__ import annotations

import importlib
import signal
import sys
import unittest


class Results(unittest.TextTestResult):
    """Writes a line at the start and at the end of each test, so that a test that hangs is known."""

    file = None

    def startTest(self, test) -> None:
        super().startTest(test)
        self._problem = "passed"
        self._write("began", test)

    def stopTest(self, test) -> None:
        super().stopTest(test)
        self._write(self._problem, test)

    def addError(self, test, err) -> None:
        super().addError(test, err)
        self._problem = "failed"
        if not isinstance(test, unittest.TestCase):  # the set-up of a class or module
            self._write("failed", test)

    def addFailure(self, test, err) -> None:
        super().addFailure(test, err)
        self._problem = "failed"

    def addSubTest(self, test, subtest, err) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._problem = "failed"

    def addSkip(self, test, reason) -> None:
        super().addSkip(test, reason)
        self._problem = "skipped"
        if not isinstance(test, unittest.TestCase):
            self._write("skipped", test)

    def _write(self, word: str, test) -> None:
        print(word, test.id().rsplit(".", 1)[-1], file=self.file, flush=True)


def main(folder: str, module: str, name: str = "", results: str = "") -> None:
    # A shell starts background jobs with SIGINT ignored, which the tests' children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, folder)
    tests = importlib.import_module(module)
    if not name:
        loaded = unittest.defaultTestLoader.loadTestsFromModule(tests)
        print(*sorted({type(test).__name__ for suite in loaded for test in suite}))
        return
    suite = unittest.defaultTestLoader.loadTestsFromName(name, tests)
    with open(results, "a") as Results.file:
        unittest.TextTestRunner(verbosity=2, resultclass=Results).run(suite)


if __name__ == "__main__":
    main(*sys.argv[1:])
