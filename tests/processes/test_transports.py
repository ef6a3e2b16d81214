"""Every transport of `multiprocessing` sends handles, at any depth, in our module and the standard one."""

from __future__ import annotations

import multiprocessing as std
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end, running
from tests.helpers.queues import take


@dataclass
class Batch:
    images: st.Tensor
    labels: dict[str, list[st.Tensor]]


def context_of(module, start_method):
    """Return our context for the method server, which the standard module does not have."""
    return (mp if start_method == "server" else module).get_context(start_method)


def make_batch() -> Batch:
    return Batch(st.full((2, 3), 1.0), {"deep": [st.full(4, 2.0), st.full(5, 3.0)]})


def write_batch(batch: Batch) -> None:
    batch.images.fill_(10)
    batch.labels["deep"][1].fill_(30)


def was_written(batch: Batch) -> bool:
    return bool((batch.images.numpy() == 10).all() and (batch.labels["deep"][1].numpy() == 30).all())


def take_one(queue, answers) -> None:
    write_batch(queue.get())
    if hasattr(queue, "task_done"):
        queue.task_done()
    answers.put("written")


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue", "JoinableQueue"])
@pytest.mark.parametrize("module", [mp, std], ids=["ours", "standard"])
def test_tensors_through_queues(start_method, strategy, kind, module) -> None:
    context = context_of(module, start_method)
    queue, answers = getattr(context, kind)(), context.SimpleQueue()
    with running(context, take_one, queue, answers):
        batch = make_batch()
        queue.put(batch)
        assert take(answers) == "written"
        assert was_written(batch)
        if kind == "JoinableQueue":
            queue.join()
    answers.close()
    queue.close()
    if kind != "SimpleQueue":
        queue.join_thread()


def answer_pipe(connection) -> None:
    batch = connection.recv()
    write_batch(batch)
    connection.send(batch)
    connection.close()


@pytest.mark.parametrize("module", [mp, std], ids=["ours", "standard"])
def test_tensors_through_pipes_both_ways(start_method, strategy, module) -> None:
    context = context_of(module, start_method)
    ours, theirs = context.Pipe()
    with running(context, answer_pipe, theirs):
        batch = make_batch()
        ours.send(batch)
        back = ours.recv()
        assert was_written(batch)
        assert back.images.storage() is batch.images.storage()
    ours.close()
    theirs.close()


def test_tensors_in_process_arguments(ctx, strategy) -> None:
    batch = make_batch()
    process = ctx.Process(target=write_batch, kwargs={"batch": batch})
    process.start()
    end(process)
    assert process.exitcode == 0
    assert was_written(batch)


def write_and_return(batch: Batch) -> st.Tensor:
    write_batch(batch)
    return batch.images


@pytest.mark.parametrize("module", [mp, std], ids=["ours", "standard"])
def test_tensors_through_pools(start_method, strategy, module) -> None:
    batches = [make_batch() for _ in range(6)]
    with context_of(module, start_method).Pool(2) as pool:
        for batch, back in zip(batches, pool.imap(write_and_return, batches), strict=True):
            assert was_written(batch)
            assert back.storage() is batch.images.storage()
        single = make_batch()
        assert pool.apply(write_and_return, (single,)).storage() is single.images.storage()
        pool.close()
        pool.join()


def test_tensors_through_executors(ctx, strategy) -> None:
    with ProcessPoolExecutor(2, mp_context=ctx) as executor:
        batches = [make_batch() for _ in range(4)]
        for batch, back in zip(batches, executor.map(write_and_return, batches), strict=True):
            assert was_written(batch)
            assert back.storage() is batch.images.storage()


def test_tensors_through_manager_proxies(ctx, strategy) -> None:
    with ctx.Manager() as manager:
        tensor = st.full(3, 1.0)
        shared = manager.dict(tensor=tensor)
        names = manager.list([tensor, {"nested": tensor}])
        queue = manager.Queue()
        queue.put(tensor)
        for back in (shared["tensor"], names[0], names[1]["nested"], queue.get()):
            assert back.storage() is tensor.storage()
        tensor.fill_(8)
        assert shared["tensor"].tolist() == [8, 8, 8]


class TensorError(Exception):
    pass


def raise_with_tensor() -> None:
    raise TensorError(st.full(2, 6.0))


def test_tensors_in_exceptions_of_pools(ctx, strategy) -> None:
    with ctx.Pool(1) as pool:
        with pytest.raises(TensorError) as caught:
            pool.apply(raise_with_tensor)
        assert caught.value.args[0].tolist() == [6, 6]
        del caught
        pool.close()
        pool.join()


def check_initializer(tensor: st.Tensor) -> None:
    global _given
    _given = tensor


def given_sum(_: int) -> float:
    return float(_given.numpy().sum())


def test_pool_initializers_take_tensors(ctx, strategy) -> None:
    tensor = st.ones(10)
    with ctx.Pool(2, initializer=check_initializer, initargs=(tensor,)) as pool:
        assert pool.map(given_sum, range(4)) == [10.0] * 4
        pool.close()
        pool.join()
