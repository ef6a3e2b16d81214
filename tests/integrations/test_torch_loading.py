"""`DataLoader` has the queues of the package, by the start method that torch would use."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from multiprocessing import queues as std
from multiprocessing.context import ForkContext

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import process, queues, start_method
from tests.helpers.children import wait_until

pytestmark = pytest.mark.usefixtures("torch_installed")


class Large(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((100_000,), float(index))


def parts(context, **options):
    """Return the context of a loader, and what its iterator has made of it; the loader must work."""
    loader = DataLoader(torch.arange(4), num_workers=1, multiprocessing_context=context, **options)
    batches = iter(loader)
    queue, worker = batches._worker_result_queue, batches._workers[0]
    assert [batch.item() for batch in batches] == [0, 1, 2, 3]
    return loader.multiprocessing_context, queue, worker


def test_default_method_is_that_of_torch(monkeypatch) -> None:
    monkeypatch.setenv("SHMTENSOR_START_METHOD", "spawn")  # for programs that ask this package
    context, queue, worker = parts(None)
    assert context is None
    assert isinstance(queue, queues.Queue)
    assert worker._start_method == multiprocessing.get_start_method()


@pytest.mark.parametrize("name", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_method_is_the_one_that_the_program_names(name) -> None:
    for asked in (name, multiprocessing.get_context(name)):
        context, queue, worker = parts(asked)
        assert asked in (name, context), "the program's own"
        assert isinstance(queue, queues.Queue)
        assert worker._start_method == name


def test_default_context_is_that_of_its_method() -> None:
    _, queue, worker = parts(multiprocessing.context._default_context)
    assert isinstance(queue, queues.Queue)
    assert worker._start_method == multiprocessing.get_start_method()


class OtherContext(ForkContext):
    """Of another library."""


def test_other_contexts_are_used_as_they_are() -> None:
    _, queue, worker = parts(OtherContext())
    assert type(queue) is std.Queue
    assert not isinstance(worker, process.ForkProcess)
    ours = mp.get_context("fork")
    context, queue, _ = parts(ours)
    assert context is ours
    assert isinstance(queue, queues.Queue)


def test_uninstall_restores_the_queues_of_torch() -> None:
    st.uninstall("torch")
    _, queue, _ = parts("fork")
    assert type(queue) is std.Queue


def test_workers_are_forked_where_cuda_is_initialised(monkeypatch) -> None:
    """As by torch: a training program has used the GPU before its loop starts the workers."""
    monkeypatch.setattr(start_method, "cuda_is_initialised", lambda: True)
    assert isinstance(parts("fork")[2], process.ForkProcess)


@pytest.mark.parametrize("persistent", [False, True])
def test_batches_of_a_loop_that_ends_early_are_freed_with_its_queue(persistent) -> None:
    before = st.stats()["bytes_live"]
    loader = DataLoader(
        Large(), 4, num_workers=2, persistent_workers=persistent, multiprocessing_context="fork"
    )
    for _batch in loader:
        break
    del loader, _batch
    gc.collect()
    wait_until(lambda: st.stats()["bytes_live"] <= before, 5, lambda: str(st.stats()))


def test_threads_may_have_iterators_of_one_loader() -> None:
    loader = DataLoader(torch.arange(4), num_workers=1, multiprocessing_context="fork")
    context = loader.multiprocessing_context
    found = []
    threads = [
        threading.Thread(target=lambda: found.append([batch.item() for batch in loader])) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[0, 1, 2, 3]] * 3
    assert loader.multiprocessing_context is context
