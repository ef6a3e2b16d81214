"""The runner of torch's own tests reports what the integration changes."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.children import run_command
from tests.torch_suite.__main__ import judge
from tests.torch_suite.differences import DIFFERENCES

PROBE = """
import unittest

import torch
import torch.multiprocessing as mp

def fill(tensor):
    tensor.fill_(4)

class TestMultiprocessing(unittest.TestCase):
    def test_fd_pool(self):
        tensor = torch.zeros(2)
        with mp.get_context("fork").Pool(1) as pool:
            pool.map(fill, [tensor])
        self.assertEqual(tensor.tolist(), [4, 4])

    def test_shared(self):
        self.assertTrue(torch.zeros(2).share_memory_().is_shared())

    def test_fs(self):
        pass
"""


@pytest.mark.thorough
def test_torchs_tests_run_in_each_mode(tmp_path) -> None:
    (tmp_path / "test_probe.py").write_text(PROBE)
    command = [sys.executable, "-m", "tests.torch_suite", str(tmp_path / "test_probe.py")]
    done = run_command([*command, "--log", str(tmp_path / "log")], timeout=110)
    assert done.returncode == 1, done
    lines = done.stdout.splitlines()
    assert lines[:3] == ["off: 3 passed", "on: 1 failed, 2 passed", "alias: 3 passed"], done
    unexpected = [f"{mode}: test_fs was expected to differ, and did not" for mode in ("on", "alias")]
    assert lines[3:] == ["wrong:", *unexpected]


@pytest.mark.parametrize("mode", DIFFERENCES)
def test_unexpected_differences_are_reported(mode) -> None:
    assert judge(mode, {"test_fs": "passed"}, {"test_fs": "failed"}) == []
    assert judge(mode, {"test_other": "failed"}, {"test_other": "failed"}) == []
    (line,) = judge(mode, {"test_other": "passed"}, {"test_other": "hung"})
    assert line == f"{mode}: test_other hung, without the integration passed"
    (line,) = judge(mode, {"test_other": "passed"}, {})
    assert "None" in line
