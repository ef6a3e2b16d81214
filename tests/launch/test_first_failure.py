"""`join` raises the failure that came first, even if it is called after all workers have failed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time

import pytest

import shmtensor.multiprocessing as mp

KINDS = ["raise", "exit", "kill", "os._exit"]


def fail_in_turn(rank, turns, kinds) -> None:
    """Each worker fails in its turn, after the one before has ended."""
    assert turns[rank].wait(60)
    if kinds[rank] == "raise":
        raise ValueError(f"rank {rank}")
    if kinds[rank] == "exit":
        raise SystemExit(10 + rank)
    if kinds[rank] == "os._exit":
        os._exit(20 + rank)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def fail_in_order(start_method, order, kinds):
    """Start workers that fail in the given order; return after all have ended."""
    turns = [mp.get_context(start_method).Event() for _ in order]
    context = mp.start_processes(
        fail_in_turn, (turns, kinds), nprocs=len(order), join=False, start_method=start_method
    )
    for rank in order:
        turns[rank].set()
        assert multiprocessing.connection.wait([context.processes[rank].sentinel], 60)
    return context


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_first_failure_is_raised_and_others_are_notes(start_method, order) -> None:
    kinds = ["raise", "raise", "raise"]
    context = fail_in_order(start_method, order, kinds)
    with pytest.raises(mp.ProcessRaisedException) as caught:
        context.join()
    assert caught.value.error_index == order[0]
    assert str(caught.value.__cause__) == f"rank {order[0]}"
    notes = caught.value.__notes__
    assert [f"rank {rank}" in note for rank, note in zip(order[1:], notes, strict=True)] == [True, True]


@pytest.mark.parametrize("pair", list(itertools.permutations(KINDS, 2)), ids="-".join)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["0-1", "1-0"])
def test_each_kind_of_failure_can_be_first(pair, order) -> None:
    kinds = pair if order == (0, 1) else pair[::-1]
    context = fail_in_order("fork", order, kinds)
    with pytest.raises(mp.ProcessException) as caught:
        context.join()
    assert caught.value.error_index == order[0]
    expected = {"raise": "ValueError", "exit": "sys.exit", "kill": "SIGKILL", "os._exit": "os._exit"}
    assert expected[pair[0]] in caught.value.msg
    assert len(caught.value.__notes__) == 1
    assert expected[pair[1]] in caught.value.__notes__[0]


def fail_because_another_did(rank, gone) -> None:
    """Rank 1 is the root cause; rank 0 fails after it, and is the first in the list."""
    if rank == 1:
        os._exit(17)
    assert gone.wait(60)
    raise ConnectionResetError("the other is gone")


def test_failures_in_the_grace_period_are_notes(start_method) -> None:
    gone = mp.get_context(start_method).Event()
    context = mp.start_processes(
        fail_because_another_did, (gone,), nprocs=2, join=False, start_method=start_method
    )
    assert multiprocessing.connection.wait([context.processes[1].sentinel], 60)
    gone.set()
    with pytest.raises(mp.ProcessExitedException, match="exit code 17") as caught:
        context.join(grace_period=60)
    assert ["ConnectionResetError" in note for note in caught.value.__notes__] == [True]


def return_or_wait(rank) -> None:
    if rank == 1:
        raise ValueError("the only one")
    time.sleep(60)


def test_terminated_workers_are_not_failures(start_method) -> None:
    with pytest.raises(mp.ProcessRaisedException, match="the only one") as caught:
        mp.start_processes(return_or_wait, nprocs=3, start_method=start_method)
    assert not hasattr(caught.value, "__notes__")


def test_notes_are_printed() -> None:
    error = mp.ProcessRaisedException("first", 0, 1)
    error.add_note("second")
    import traceback

    assert "second" in "".join(traceback.format_exception(type(error), error, None))
