"""The ledger of the torture test reports each kind of wrong message of a queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.torture.ledger import Event, Ledger

QUEUE = 5


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    ledger = Ledger()
    yield ledger
    ledger.close()


def note(ledger: Ledger, *events: tuple[Event, int]) -> None:
    ledger.writer.note(*[(event, QUEUE, number) for event, number in events])


def put(ledger: Ledger, *numbers: int) -> None:
    for number in numbers:
        note(ledger, (Event.PUTTING, number), (Event.PUT, number))


def got(ledger: Ledger, *numbers: int) -> None:
    for number in numbers:
        note(ledger, (Event.GETTING, 1), (Event.GOT, number), (Event.DONE_GETTING, 1))


def test_ledger_accepts_messages_that_were_received_once(ledger: Ledger) -> None:
    put(ledger, 1, 2, 3)
    note(ledger, (Event.PUTTING, 4), (Event.REFUSED, 4), (Event.PUTTING, 5))  # its process was killed
    got(ledger, 1, 2, 3, 5)
    note(ledger, (Event.DRAINED, 0))
    assert ledger.judge(may_lose=False) == []


def test_ledger_reports_message_received_twice(ledger: Ledger) -> None:
    put(ledger, 1)
    got(ledger, 1, 1)
    assert "twice" in ledger.judge(may_lose=True)[0]


def test_ledger_reports_message_that_was_not_put(ledger: Ledger) -> None:
    note(ledger, (Event.PUTTING, 1), (Event.REFUSED, 1))
    got(ledger, 1, 2)
    first, second = ledger.judge(may_lose=True)
    assert "was not put" in first
    assert "put was refused" in second


def test_ledger_reports_missing_message_unless_a_get_was_interrupted(ledger: Ledger) -> None:
    put(ledger, 1, 2, 3)
    got(ledger, 1)
    note(ledger, (Event.GETTING, 1), (Event.DRAINED, 0))
    assert "2 of 3 messages of a queue are missing, and 1 gets" in ledger.judge(may_lose=False)[0]


def test_queue_that_redelivers_loses_only_what_an_exception_ended(ledger: Ledger) -> None:
    note(ledger, (Event.REDELIVERS, 0))
    put(ledger, 1, 2, 3)
    got(ledger, 1, 1)
    note(ledger, (Event.GETTING, 1), (Event.GETTING, 1), (Event.FAILED, 1), (Event.DRAINED, 0))
    assert "2 of 3 messages of a queue are missing, and 1 gets" in ledger.judge(may_lose=False)[0]
    assert ledger.counts["received again"] == 1


def test_ledger_reports_no_messages_of_a_queue_that_was_freed(ledger: Ledger) -> None:
    put(ledger, 1, 2, 3)
    assert ledger.judge(may_lose=False) == []
