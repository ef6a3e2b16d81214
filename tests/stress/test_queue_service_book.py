"""The book of the queue service forgets answers that cannot come any more, and no others."""

from __future__ import annotations

import pytest

from tests.stress.queue_service import Book


def book_of_two_workers() -> Book:
    book = Book()
    for worker in (1, 2):
        book.replace(0, worker)
    return book


def test_book_does_not_grow_with_lost_answers() -> None:
    book = book_of_two_workers()
    for number in range(1, 3000, 3):  # the first of each three is lost
        book.missing.update(range(number, number + 3))
        book.note(number + 1, 1)
        book.note(number + 2, 2)
        book.give_up()
        assert len(book.missing) < 5
    assert book.lost == 1000
    assert book.awaited == 0


def test_book_remembers_what_a_living_worker_may_have() -> None:
    book = book_of_two_workers()
    book.missing.update(range(1, 9))
    for number in range(2, 9):
        book.note(number, 1)
    book.give_up()
    assert book.missing == {1}, "worker 2 may be slow"
    book.note(1, 2)
    assert book.lost == 0


def test_book_remembers_the_answers_of_a_killed_worker_until_its_successor_answers() -> None:
    book = book_of_two_workers()
    book.missing.update(range(1, 5))
    book.note(2, 1)
    book.give_up()
    book.replace(2, 3)
    book.missing.update(range(5, 9))
    book.note(5, 1)
    assert 1 in book.missing
    book.note(6, 3)
    assert book.lost - len(book.missing) == 3, "1, 3 and 4 cannot come any more"
    assert book.missing == {7, 8}


def test_book_refuses_a_second_answer() -> None:
    book = book_of_two_workers()
    book.missing.add(1)
    book.note(1, 1)
    with pytest.raises(KeyError):
        book.note(1, 1)
