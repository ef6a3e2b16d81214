"""The record of open tasks of the queue service forgets answers that cannot come any more, and no others."""

from __future__ import annotations

import pytest

from tests.stress.queue_service import OpenTasks


def tasks_of_two_workers() -> OpenTasks:
    tasks = OpenTasks()
    for worker in (1, 2):
        tasks.replace(0, worker)
    return tasks


def test_record_does_not_grow_with_lost_answers() -> None:
    tasks = tasks_of_two_workers()
    for number in range(1, 3000, 3):  # the first of each three is lost
        tasks.missing.update(range(number, number + 3))
        tasks.note(number + 1, 1)
        tasks.note(number + 2, 2)
        tasks.give_up()
        assert len(tasks.missing) < 5
    assert tasks.lost == 1000
    assert tasks.awaited == 0


def test_task_of_a_living_worker_stays_open() -> None:
    tasks = tasks_of_two_workers()
    tasks.missing.update(range(1, 9))
    for number in range(2, 9):
        tasks.note(number, 1)
    tasks.give_up()
    assert tasks.missing == {1}, "worker 2 may be slow"
    tasks.note(1, 2)
    assert tasks.lost == 0


def test_task_stays_open_until_the_successor_of_its_worker_answers() -> None:
    tasks = tasks_of_two_workers()
    tasks.missing.update(range(1, 5))
    tasks.note(2, 1)
    tasks.give_up()
    tasks.replace(2, 3)
    tasks.missing.update(range(5, 9))
    tasks.note(5, 1)
    assert 1 in tasks.missing
    tasks.note(6, 3)
    assert tasks.lost - len(tasks.missing) == 3, "1, 3 and 4 cannot come any more"
    assert tasks.missing == {7, 8}


def test_second_answer_is_refused() -> None:
    tasks = tasks_of_two_workers()
    tasks.missing.add(1)
    tasks.note(1, 1)
    with pytest.raises(KeyError):
        tasks.note(1, 1)
