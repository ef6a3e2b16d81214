"""A process that is short of address space cannot search the tickets of others: the manager frees for it."""

from __future__ import annotations

from tests.helpers.children import run_beside


def test_block_whose_tickets_cannot_be_searched_is_freed_by_the_manager(strategy) -> None:
    """Regression: the block stayed allocated until a process of the session died."""
    done = run_beside(__file__, "postponed_frees", env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert done.stdout == "0\n", done
    assert done.stderr == "", done
