"""Functions with a cache are sent by value as other functions are."""

from __future__ import annotations

from tests.helpers.children import output, run_beside


def test_cached_functions_both_ways() -> None:
    output(run_beside(__file__, "cached_functions"))
