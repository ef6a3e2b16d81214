"""`torch.utils.data.DataLoader` with workers: every batch arrives as without the integration, as handles."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

import shmtensor as st
import shmtensor.multiprocessing as mp

pytestmark = pytest.mark.usefixtures("torch_installed")


class Point(NamedTuple):
    x: Any
    y: Any


class Samples(Dataset):
    """One of everything that `default_collate` knows."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return {
            "image": torch.full((3, 8, 8), index, dtype=torch.float32),
            "mask": np.full((5, 2), index % 2, dtype=bool),
            "half": torch.full((3,), index, dtype=torch.bfloat16),
            "nested": [(torch.tensor(index), float(index)), Point(np.int16(index), {"name": f"n{index}"})],
            "empty": torch.empty(0, 3),
            "view": torch.arange(12).view(3, 4).T[index % 4],
            "shared": st.full((2, 3), index, "i4"),
        }


def stacked(batch):
    return torch.stack(batch).mul(2), len(batch)


def plain(obj):
    """Return the values of a batch, with what describes its tensors."""
    if isinstance(obj, dict):
        return {key: plain(value) for key, value in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(*map(plain, obj)) if hasattr(obj, "_fields") else [plain(value) for value in obj]
    if isinstance(obj, torch.Tensor):
        return obj.dtype, obj.size(), obj.stride(), obj.storage_offset(), obj.tolist()
    return obj


def tensors(obj):
    if isinstance(obj, torch.Tensor):
        return [obj]
    if isinstance(obj, dict):
        obj = obj.values()
    return [tensor for value in obj for tensor in tensors(value)] if not isinstance(obj, (str, int)) else []


CONTEXTS = ["fork", "spawn", "forkserver", "server", "ours"]


def context_of(name):
    return mp.get_context("fork") if name == "ours" else name


@pytest.mark.thorough
@pytest.mark.parametrize("name", CONTEXTS)
def test_batches_arrive_in_shared_memory(name) -> None:
    loader = DataLoader(Samples(), batch_size=4, num_workers=2, multiprocessing_context=context_of(name))
    found = list(loader)
    expected = list(DataLoader(Samples(), batch_size=4))
    assert [plain(batch) for batch in found] == [plain(batch) for batch in expected]
    for batch in found:
        for tensor in tensors(batch):
            assert tensor.numel() == 0 or st._core.storage_at(tensor.data_ptr(), tensor.nbytes) is not None
        batch["image"].mul_(2)
        assert batch["image"][-1, 0, 0, 0] == 2 * batch["nested"][0][0][-1]


class Rows(Dataset):
    """A data set that counts, in the tensors of its rows, how often each was used."""

    def __init__(self, *tensors):
        self.tensors = tensors

    def __len__(self):
        return len(self.tensors[0])

    def __getitem__(self, index):
        for rows in self.tensors:
            rows[index] += 1
        return index


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["spawn", "forkserver", "server"])
def test_workers_of_all_epochs_use_one_data_set(name) -> None:
    """As with torch alone, the data set moves into shared memory when the first worker starts."""
    rows = torch.zeros(4, 100_000)
    from_numpy = torch.from_numpy(np.zeros((4, 100_000), "f4"))
    view = rows[3]
    before = st.stats()["bytes_live"]
    loader = DataLoader(Rows(rows, from_numpy), batch_size=1, num_workers=2, multiprocessing_context=name)
    for _ in range(2):
        for _ in loader:
            assert st.stats()["bytes_live"] - before < 3 * rows.nbytes
    assert all(tensor.eq(2).all() for tensor in (rows, from_numpy, view))


def test_custom_collate_and_single_samples() -> None:
    data = [torch.full((3,), index) for index in range(6)]
    found = list(DataLoader(data, batch_size=3, num_workers=1, collate_fn=stacked))
    assert [(batch.sum().item(), count) for batch, count in found] == [(18, 3), (72, 3)]
    assert list(map(int.__add__, range(3), range(3))) == [0, 2, 4]
    alone = list(DataLoader(data, batch_size=None, num_workers=1))
    assert torch.stack(alone).equal(torch.stack(data))


def test_pinned_batches() -> None:
    """Without a GPU torch warns and does not pin, but its thread receives the batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(DataLoader(Samples(), batch_size=4, num_workers=1, pin_memory=True))
    assert [plain(batch) for batch in found] == [
        plain(batch) for batch in DataLoader(Samples(), batch_size=4)
    ]


def test_batches_of_unequal_sizes_are_refused_as_by_torch() -> None:
    data = [torch.zeros(2), torch.zeros(3)]
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        list(DataLoader(data, batch_size=2, num_workers=1))


def test_blocks_of_batches_are_reused() -> None:
    loader = DataLoader(Samples(), batch_size=1, num_workers=1, multiprocessing_context="fork")
    before = st.stats()["blocks"]
    for _ in range(5):
        for batch in loader:
            del batch
    del loader
    assert st.stats()["blocks"] <= before + 1


def test_collating_outside_of_a_worker_is_torch_s() -> None:
    batch = default_collate([torch.zeros(3)] * 2)
    assert st._core.storage_at(batch.data_ptr(), batch.nbytes) is None
    assert default_collate([st.ones(2), st.ones(2)]).tolist() == [[1, 1], [1, 1]]


def sum_in_a_task(name):
    loader = DataLoader(torch.arange(8.0), num_workers=1, multiprocessing_context=mp.get_context(name))
    return sum(batch.item() for batch in loader)


@pytest.mark.parametrize("name", ["fork", "server"])
def test_task_of_a_pool_may_have_a_loader_with_workers(name) -> None:
    with mp.get_context(name).Pool(1) as pool:
        assert pool.apply(sum_in_a_task, (name,)) == 28
