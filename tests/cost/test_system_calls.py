"""Promise 1: a warm send costs no system call of its own."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.children import clean_environment, program_beside
from tests.helpers.system_calls import MARK, count_system_calls

TRIPS = 200
BYTES, SAME, FRESH, VIEWS = range(4)


FUTEX, FUTEX_WAITV, GETCPU, SCHED_YIELD = 202, 449, 309, 24  # x86-64
WAITS = {FUTEX, FUTEX_WAITV, 204, GETCPU, SCHED_YIELD}


@pytest.mark.thorough
def test_round_trip_makes_no_system_call_but_to_wait(start_method, strategy) -> None:
    """Calls of both processes and the manager count, for bytes, one tensor, fresh ones and views."""
    program = str(program_beside(__file__, "round_trips"))
    command = [sys.executable, program, start_method, str(TRIPS), str(MARK)]
    env = clean_environment(SHMTENSOR_SHARING_STRATEGY=strategy)
    counts = count_system_calls(command, env, timeout=100)
    for kind in (BYTES, SAME, FRESH, VIEWS):
        calls = counts[kind]
        assert calls[FUTEX] + calls[FUTEX_WAITV] <= 8 * TRIPS, (kind, calls)
        # The interpreter's heap needs a varying number of calls; one call per message would be 400.
        assert sum(calls[number] for number in set(calls) - WAITS) < TRIPS / 10, (kind, calls)
