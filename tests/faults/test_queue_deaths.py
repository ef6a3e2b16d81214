"""Deaths of users of a queue at chosen instants; `test_kill_points.py` kills at every fault point."""

from __future__ import annotations

import pytest

from tests.helpers.children import output, run_beside


@pytest.mark.parametrize(
    "case",
    [
        "ring_and_message_of_dead_processes_are_mapped_together",
        "ring_in_use_outlives_its_maker_and_the_manager",
        "lost_ring_raises_once",
        "messages_that_were_lost_count_as_done",
        "message_is_done_once_although_its_consumer_was_killed_in_task_done redeliver.cancelled",
        "message_is_done_once_although_its_consumer_was_killed_in_task_done redeliver.completed",
        "immediate_shutdown_discards_lost_messages",
        "put_after_a_lost_ring",
        "consumer_stopped_while_a_producer_changes_the_ring",
        "descriptor_is_readable_although_the_producer_was_killed queue.counted",
        "descriptor_is_readable_although_the_producer_was_killed queue.raised",
        "descriptor_is_readable_although_the_producer_was_killed queue.put_notify:2",
        "producer_killed_before_it_has_put_wakes_in_vain_at_most queue.disarmed",
        "producer_killed_before_it_has_put_wakes_in_vain_at_most queue.put_count",
        "stopped_producer_stops_no_other",
    ],
)
def test_queue_outlives_its_users(case: str) -> None:
    assert output(run_beside(__file__, "queue_deaths", *case.split())) == "fine\n"
