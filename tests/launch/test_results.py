"""`results` returns the values of all workers by rank; tensors travel as handles."""

from __future__ import annotations

import threading

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp


def square(rank) -> int:
    return rank * rank


def start(function, *args, nprocs=1, start_method="fork"):
    return mp.start_processes(function, args, nprocs=nprocs, join=False, start_method=start_method)


def test_results_are_ordered_by_rank(start_method) -> None:
    context = start(square, nprocs=4, start_method=start_method)
    assert context.results() == [0, 1, 4, 9]
    assert context.results() == [0, 1, 4, 9], "a second call returns the same"
    assert context.join()


def give_tensors(rank, tensor):
    return tensor, st.full(4, rank)


def test_tensors_in_results_are_handles(start_method, strategy) -> None:
    tensor = st.ones(3)
    for rank, (back, own) in enumerate(
        start(give_tensors, tensor, nprocs=2, start_method=start_method).results()
    ):
        assert back.storage() is tensor.storage()
        assert own.tolist() == [rank] * 4


def give_megabytes(rank) -> bytes:
    return bytes([rank]) * (3 << 20)


def test_results_larger_than_a_pipe(start_method) -> None:
    context = start(give_megabytes, nprocs=2, start_method=start_method)
    assert context.results() == [bytes([rank]) * (3 << 20) for rank in range(2)]


def give_lock(rank):
    return threading.Lock()


def test_unpicklable_value_fails_results_but_not_join(start_method) -> None:
    """Programs written for torch return arbitrary values, which torch ignores."""
    context = start(give_lock, start_method=start_method)
    assert context.join()
    with pytest.raises(TypeError, match=r"rank 0 returned a value that cannot be sent: TypeError: .*pickle"):
        context.results()


class BreaksHere:
    def __reduce__(self):
        return int, ("not a number",)


def give_breaking(rank):
    return BreaksHere()


def test_unloadable_value_fails_results_but_not_join(start_method) -> None:
    context = start(give_breaking, start_method=start_method)
    assert context.join()
    with pytest.raises(TypeError, match=r"rank 0 returned .*ValueError"):
        context.results()


def fail_or_return(rank, tensor):
    if rank == 1:
        raise ValueError("no results")
    return tensor


def test_results_raises_the_failure(start_method) -> None:
    tensor = st.ones(3)
    context = start(fail_or_return, tensor, nprocs=2, start_method=start_method)
    with pytest.raises(mp.ProcessRaisedException, match="no results"):
        context.results()
    with pytest.raises(mp.ProcessRaisedException, match="no results"):
        context.results()


def test_zero_workers() -> None:
    context = start(square, nprocs=0)
    assert context.join()
    assert context.results() == []
    assert context.pids() == []


@pytest.mark.parametrize("nprocs", [-1, "2", 1.5])
def test_invalid_nprocs_raises(nprocs) -> None:
    with pytest.raises((ValueError, TypeError), match=str(nprocs) if nprocs == -1 else "integer"):
        mp.spawn(square, nprocs=nprocs)


def test_spawn_context_is_the_start_method_s() -> None:
    """In torch, `SpawnContext` is a deprecated alias of `ProcessContext`."""
    assert mp.SpawnContext is mp.context.SpawnContext
    assert isinstance(mp.get_context("spawn"), mp.SpawnContext)
    context = start(square)
    assert type(context) is mp.ProcessContext
    assert context.join()
    from shmtensor.multiprocessing.spawn import ProcessRaisedException, spawn

    assert ProcessRaisedException is mp.ProcessRaisedException
    assert spawn is mp.spawn


def put_square(rank: int, queue) -> None:
    queue.put(rank * rank)


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue", "SimpleQueue"])
def test_queue_of_the_default_context_is_an_argument_for_every_method(kind, start_method) -> None:
    """Regression: where the default is fork, a semaphore could not be sent to workers of spawn."""
    queue = getattr(mp, kind)()
    mp.spawn(put_square, (queue,), nprocs=3, start_method=start_method)
    assert {queue.get() for _ in range(3)} == {0, 1, 4}
