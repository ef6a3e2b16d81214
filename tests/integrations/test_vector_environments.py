"""Environments of Gymnasium and Stable-Baselines3: the same results when their imports name the drop-in."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.helpers.children import output, run_program
from tests.integrations.programs import PROGRAMS
from tests.integrations.programs.vector_environments import CASES
from tests.ordinary.program import changed

MODULES = ("gymnasium.vector.async_vector_env", "stable_baselines3.common.vec_env.subproc_vec_env")
# Workers of Stable-Baselines3 import torch, unless they are forked: few methods.
FEW = {"processes": ("fork", "forkserver"), "broken, processes": ("fork",)}
RUNS = [(method, case) for case in CASES for method in FEW.get(case, ("fork", "spawn", "server"))]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Return the folders of the two modules that start processes, as they are and with changed imports."""
    folders = {how: tmp_path_factory.mktemp(how) for how in ("standard", "drop-in")}
    for module in MODULES:
        path = Path(importlib.util.find_spec(module).origin)
        text = path.read_text()
        assert changed(text) != text
        (folders["standard"] / path.name).write_text(text)
        (folders["drop-in"] / path.name).write_text(changed(text))
    return folders


@pytest.mark.parametrize(("method", "case"), RUNS)
def test_results_are_the_standard_librarys(method, case, folders) -> None:
    seen = {
        how: output(run_program(PROGRAMS / "vector_environments.py", str(folder), one, case, timeout=110))
        for how, folder in folders.items()
        for one in ["fork" if (how, method) == ("standard", "server") else method]
    }
    assert seen["standard"]
    assert seen["drop-in"] == seen["standard"]
