"""Deaths of users of a queue at chosen instants; the simulation has those in every order of steps."""

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
        "immediate_shutdown_discards_lost_messages",
        "put_after_a_lost_ring",
    ],
)
def test_queue_outlives_its_users(case: str) -> None:
    assert output(run_beside(__file__, "queue_deaths", case)) == "fine\n"
