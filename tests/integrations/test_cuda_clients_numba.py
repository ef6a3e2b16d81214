"""numba-cuda's own tests on the simulated driver, which has no kernels, graphs or managed memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.children import run_command

DRIVER = [
    *("array_attr", "context_stack", "cuda_array_slicing", "cuda_auto_context", "cuda_devicerecord"),
    *("cuda_driver", "cuda_memory", "cuda_ndarray", "deallocations", "detect", "emm_plugins", "events"),
    *("host_alloc", "init", "managed_alloc", "pinned", "profiler", "reset_device", "runtime"),
    *("select_device", "streams"),
]
SUITES = {
    "driver": (150, [f"cudadrv.test_{name}" for name in DRIVER]),
    "ipc": (5, ["cudapy.test_ipc"]),
    "interface": (14, ["cudapy.test_cuda_array_interface"]),
}
NEEDS = Path(__file__).with_name("numba_needs.txt")


def needs(modules: list[str]) -> dict[str, str]:
    """Return the tests that need what the simulator lacks."""
    rows = [line.split() for line in NEEDS.read_text().splitlines() if not line.startswith("#")]
    return {name: lacking for name, lacking in rows if name.startswith(tuple(f"{m}." for m in modules))}


@pytest.mark.parametrize("suite", SUITES)
def test_own_tests_pass(suite, simulated_driver) -> None:
    at_least, modules = SUITES[suite]
    command = [sys.executable, "-m", "tests.integrations.numba_suite", *modules]
    done = run_command(command, timeout=110, env=simulated_driver.env)
    results: dict[str, dict[str, str]] = {"passed": {}, "failed": {}}
    for line in done.stdout.splitlines():
        result, _, rest = line.partition(" ")
        results.get(result, {})[rest.partition(" ")[0]] = rest
    known = needs(modules)
    unknown = [line for name, line in results["failed"].items() if name not in known]
    assert unknown == []
    assert len(results["passed"]) >= at_least, done.stderr[-5000:]
    assert set(known) & set(results["passed"]) == set(), "remove these from numba_needs.txt"
