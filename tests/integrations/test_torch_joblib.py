"""torch's tensors in tasks and results of joblib, and of multiprocess, with both integrations."""

from __future__ import annotations

import pytest

from tests.helpers.children import assert_equal_output
from tests.integrations.programs import PROGRAMS, succeed

BACKENDS = ["loky", "multiprocessing", "shmtensor"]


@pytest.mark.thorough
@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_travel_as_handles(backend) -> None:
    succeed("torch_joblib_shared.py", backend)


@pytest.mark.thorough
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_equal_with_and_without_the_integrations(backend) -> None:
    assert_equal_output(PROGRAMS / "torch_joblib_values.py", backend, timeout=110)
