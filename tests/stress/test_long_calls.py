"""The measurement of long calls beside what the machine delays."""

from __future__ import annotations

import os

import pytest

from tests.stress.long_calls import DELAY, RECORD, LongCalls, merged


def test_union_of_intervals() -> None:
    assert merged([(0.0, 1.0), (0.5, 0.7), (0.9, 2.0), (3.0, 4.0)]) == [(0.0, 2.0), (3.0, 4.0)]
    assert merged([]) == []


def test_delays_explain_a_part_of_a_call() -> None:
    calls = LongCalls()
    for kind, began, ended in [
        (0, 10.0, 11.0),
        (0, 20.0, 20.3),
        (1, 5.0, 5.1),
        (DELAY, 9.0, 10.4),
        (DELAY, 10.2, 10.9),
    ]:
        os.write(calls.file, RECORD.pack(kind, began, ended))
    assert calls.longest(0) == 1.0
    assert calls.longest_unexplained(0) == pytest.approx(0.3)  # of the second one
    assert calls.longest_unexplained(1) == pytest.approx(0.1)
    assert calls.longest(2) == calls.longest_unexplained(2) == 0.0
    calls.close()
