"""Fixtures: the simulated driver, and with `-m gpu` a GPU."""

from __future__ import annotations

import pytest

from tests.cuda.harness import SIMULATORS, Machine


@pytest.fixture(params=["sim", pytest.param("gpu", marks=pytest.mark.gpu)])
def machine(request: pytest.FixtureRequest, tmp_path) -> Machine:
    """Return a machine with a GPU, simulated or not."""
    simulated = request.node.get_closest_marker("simulated")
    if request.param == "gpu" and simulated is not None:
        pytest.skip(f"on the simulated driver only: {simulated.args[0]}")
    if request.param == "sim":
        assert (SIMULATORS / "libcuda-full.so.1").exists(), "build it: make build/cpp/.built"
    return Machine(request.param, tmp_path)


@pytest.fixture
def simulator(tmp_path) -> Machine:
    """Return the simulator, for tests of other machines and injected faults."""
    return Machine("sim", tmp_path)
