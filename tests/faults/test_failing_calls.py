"""System calls fail at random, as if descriptors or memory were exhausted: no message is lost.

A preloaded library of the tests, `failing_calls.cpp`, makes them fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.children import output, run_beside, run_python

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build/cpp/libfailing-calls.so"


@pytest.mark.thorough
@pytest.mark.parametrize(("of_managers", "of_members"), [(0, 0), (30, 0), (0, 30), (15, 15)])
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_failing_system_calls_lose_no_message(strategy: str, of_managers: int, of_members: int) -> None:
    """Regression: messages were lost.

    Successors of killed managers started the session again, or discarded what they could not open. Members
    consumed messages whose bytes they could not map. The rates of failing calls are per thousand.
    """
    assert LIBRARY.exists(), "build it: make build/cpp/.built"
    env = {
        "LD_PRELOAD": str(LIBRARY),
        "FAILING_CALLS": str(of_managers),
        "FAILING_CALLS_OF_MEMBERS": str(of_members),
    }
    done = run_beside(__file__, "failing_calls", strategy, "1", "4", timeout=110, env=env)
    assert not output(done).startswith("0 ")


def test_manager_does_not_start_if_all_calls_fail() -> None:
    code = "import shmtensor as st; st.zeros(1)"
    done = run_python(code, env={"LD_PRELOAD": str(LIBRARY), "FAILING_CALLS": "1000"})
    assert "it crashes on start, or its descriptors are used up" in done.stderr
