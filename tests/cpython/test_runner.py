"""The runner of CPython's tests changes only imports, and reports unexpected results."""

from __future__ import annotations

import pytest

from tests.cpython import sources
from tests.cpython.__main__ import judge, run_one

PROBE = """
import os, subprocess, time, unittest

class TestProbe(unittest.TestCase):
    def test_fine(self): ...
    def test_skipped(self):
        self.skipTest("not here")
    def test_sub(self):
        for k in range(2):
            with self.subTest(k=k):
                assert k
    def test_wrong(self):
        assert False

class TestHang(unittest.TestCase):
    def test_hang(self):
        time.sleep(60)

class TestCrash(unittest.TestCase):
    def test_crash(self):
        os._exit(3)

class TestLeft(unittest.TestCase):
    def test_left(self):
        subprocess.Popen(["sleep", "60"])
"""


@pytest.mark.skipif(not sources.are_installed(), reason="this Python has been installed without its tests")
def test_source_transformation_changes_only_imports(tmp_path) -> None:
    sources.write(tmp_path / "ours")
    sources.write(tmp_path / "standard", standard=True)
    for ours in (tmp_path / "ours").rglob("*.py"):
        standard = tmp_path / "standard" / ours.relative_to(tmp_path / "ours")
        lines = ours.read_text().splitlines()
        pairs = zip(lines, standard.read_text().splitlines(), strict=True)
        changed = [one for one, other in pairs if one != other and one.strip() != 'ctx = "server"']
        assert all("import" in line and "shmtensor.multiprocessing" in line for line in changed), changed
        left = [
            line
            for line in lines
            if "from multiprocessing import" in line or "import multiprocessing as" in line
        ]
        assert not left, left


def test_some_classes_are_left_out() -> None:
    left_out = [
        ("futures_with_server", "ProcessPoolForkWaitTest"),
        (sources.FUTURES, "InterpreterPoolWaitTest"),
    ]
    assert not any(sources.concerns(*one) for one in left_out)
    assert sources.concerns("futures_with_server.test_wait", "ProcessPoolSpawnWaitTest")
    assert sources.concerns(sources.FUTURES, "ProcessPoolForkWaitTest")


@pytest.mark.thorough
def test_result_of_each_test_is_recorded(tmp_path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    with open(tmp_path / "log", "wb") as log:
        assert run_one(tmp_path, "probe", "TestProbe", 60, log) == {
            "TestProbe.test_fine": "passed",
            "TestProbe.test_skipped": "skipped",
            "TestProbe.test_sub": "failed",
            "TestProbe.test_wrong": "failed",
        }
        assert run_one(tmp_path, "probe", "TestHang", 3, log)["TestHang.test_hang"] == "hung"
        crashed = run_one(tmp_path, "probe", "TestCrash", 60, log)
        assert crashed == {"TestCrash.test_crash": "hung", "TestCrash.its process": "ended with 3"}
        left = run_one(tmp_path, "probe", "TestLeft", 60, log, timeout=1)
        assert left["TestLeft.its processes"].startswith("left")


def test_unexpected_results_are_reported(capsys) -> None:
    known = "_TestImportStar.test_import"
    assert judge("with_fork", "_TestImportStar", {known: "failed"}, dict) == []
    assert judge("with_fork", "_TestImportStar", {known: "passed"}, dict) == [
        f"with_fork.{known} was expected to fail, and did not"
    ]
    other = {known: "failed", "_TestImportStar.test_other": "hung"}
    assert judge("with_fork", "_TestImportStar", other, dict) == ["with_fork._TestImportStar.test_other hung"]
    assert judge("with_fork", "_TestImportStar", other, lambda: other) == []
    assert "with the standard library too" in capsys.readouterr().out
