"""CuPy's own tests on the simulated driver, which has no kernels, graphs or managed memory."""

from __future__ import annotations

import pytest

from tests.integrations import own_tests

SUITES = {
    "memory": (85, ["cuda_tests/test_memory.py"]),
    "pinned": (12, ["cuda_tests/test_pinned_memory.py"]),
    "streams": (33, ["cuda_tests/test_stream.py"]),
}


@pytest.mark.parametrize("suite", SUITES)
def test_own_tests_pass(suite, simulated_driver) -> None:
    at_least, files = SUITES[suite]
    own_tests.check(simulated_driver, "cupy", files, at_least=at_least, of=tuple(files))
