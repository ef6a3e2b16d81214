"""Processes under RLIMIT_AS, which counts address space, used or not."""

from __future__ import annotations

import pytest

from tests.helpers.children import output, run_beside


def run(strategy: str, *arguments: str) -> None:
    env = {"SHMTENSOR_SHARING_STRATEGY": strategy}
    output(run_beside(__file__, "limited_address_space", *arguments, env=env))


OF_ONE = ["growing_sizes", "growing_sizes collecting", "used_arenas", "threads"]
OF_SEVERAL = ["peers", "windows", "many_peers", "reserves", "limited_manager"]


@pytest.mark.thorough
@pytest.mark.parametrize("case", OF_ONE + OF_SEVERAL)
def test_limited_process_maps_what_it_uses(strategy, case) -> None:
    run(strategy, *case.split())


def test_refusal_names_the_limit_and_loses_nothing(strategy) -> None:
    run(strategy, "refusal")
