"""The program in `examples` that uses scikit-learn."""

from __future__ import annotations

import re

from tests.helpers.children import run_example


def test_grid_search_shares_the_array() -> None:
    done = run_example("grid_search.py", "192", timeout=110)
    assert not done.stderr
    found = re.fullmatch(
        r"best: \{.*\}; the array has 192 MiB\n"
        r"joblib: .* s, \d+ MiB more\nshmtensor: .* s, (\d+) MiB more\n",
        done.stdout,
    )
    assert found, done
    ours = int(found[1])
    assert ours < 150, "the workers have another copy of the array"
