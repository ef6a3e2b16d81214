"""Hugging Face datasets with `st.install("multiprocess")`."""

from __future__ import annotations

import re

from tests.helpers.children import run_example


def test_map_example_shares_the_table(tmp_path) -> None:
    offline = {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = run_example("datasets_map.py", "64", timeout=110, env=offline)
    found = re.fullmatch(
        r"a table of 64 MiB\ndatasets: .* s, (\d+) MiB in a worker\nshmtensor: .* s, (\d+) MiB in a worker\n",
        done.stdout,
    )
    assert found, done
    alone, ours = map(int, found.groups())
    assert alone > 64
    assert ours < alone - 50, "a worker has a copy of the table"
