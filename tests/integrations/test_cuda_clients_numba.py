"""numba-cuda's own tests on the simulated driver, which has no kernels, graphs or managed memory."""

from __future__ import annotations

import pytest

from tests.integrations import own_tests

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


@pytest.mark.thorough
@pytest.mark.parametrize("suite", SUITES)
def test_own_tests_pass(suite, simulated_driver) -> None:
    at_least, modules = SUITES[suite]
    of = tuple(f"{module}." for module in modules)
    own_tests.check(simulated_driver, "numba", modules, at_least=at_least, of=of)
