"""Fixtures: the simulated driver, and with `-m gpu` a GPU."""

from __future__ import annotations

import pytest

from tests.cuda.harness import SIMULATORS, Machine


@pytest.fixture(params=["sim", pytest.param("gpu", marks=pytest.mark.gpu)])
def machine(request: pytest.FixtureRequest, tmp_path) -> Machine:
    """Return a machine with a GPU, simulated or not."""
    if request.param == "sim":
        assert (SIMULATORS / "libcuda-full.so.1").exists(), "build it: make build/cpp/.built"
    return Machine(request.param, tmp_path)


@pytest.fixture
def simulator(tmp_path) -> Machine:
    """Return the simulator, for tests of other machines and injected faults."""
    return Machine("sim", tmp_path)
