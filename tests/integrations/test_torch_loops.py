"""Training loops over a `DataLoader`, as frameworks write them, with errors and deaths: equal to torch's."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import time
import warnings
from dataclasses import dataclass
from multiprocessing.context import ForkContext

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

import shmtensor as st
from tests.helpers.children import wait_until

WORKERS = 2


@pytest.fixture(autouse=True)
def _settled(request, torch_installed):
    yield
    gc.collect()
    if "other" in request.node.name:  # messages in kernel pipes
        st.gc(older_than=0)
    wait_until(lambda: not st.stats()["in_flight"], 5, lambda: str(st.stats()))


class OtherContext(ForkContext):
    """Of another library, so that the loader uses its queues: the standard library's."""


@pytest.fixture(params=["ours", "other"])
def context(request):
    """Return a context for workers."""
    return "fork" if request.param == "ours" else OtherContext()


class Numbers(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return {
            "x": torch.full((3,), float(index)),
            "more": [torch.tensor(index), {"deep": torch.ones(2, 2)}],
        }


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        for number in range(info.id, 24, info.num_workers):
            yield torch.full((2,), float(number))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.layer(x).pow(2).mean()


def moved(batch, device):
    """Return a batch on a device, as frameworks move it."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: moved(value, device) for key, value in batch.items()}
    return [moved(value, device) for value in batch]


def fit(context, persistent):
    """Train and validate; return the losses."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    train, validate = (
        DataLoader(
            Numbers(),
            batch_size=4,
            shuffle=shuffle,
            num_workers=WORKERS,
            pin_memory=True,
            persistent_workers=persistent,
            multiprocessing_context=context,
            generator=torch.Generator().manual_seed(1),
        )
        for shuffle in (True, False)
    )
    losses = []
    for _ in range(2):
        for batch in itertools.islice(train, 4):  # the epoch ends early
            loss = model(moved(batch, "cpu")["x"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            losses.append(sum(model(batch["x"]).item() for batch in validate))
    for pair in zip(train, validate, strict=True):  # two loaders together
        losses.append([batch["more"][0].sum().item() for batch in pair])
    return losses


@pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning")
@pytest.mark.parametrize("persistent", [False, True])
def test_losses_are_those_of_torch(context, persistent) -> None:
    ours = fit(context, persistent)
    st.uninstall("torch")
    assert fit("fork", persistent) == ours


@pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning")
def test_streams_with_persistent_workers_and_pinned_memory(context) -> None:
    loader = DataLoader(
        Stream(),
        batch_size=4,
        num_workers=WORKERS,
        pin_memory=True,
        persistent_workers=True,
        multiprocessing_context=context,
    )
    for _ in range(3):
        assert sorted(torch.cat(list(loader))[:, 0].tolist()) == list(range(24))


@dataclass
class Padded:
    """A batch of a user's class, which is pinned by its own method."""

    values: torch.Tensor
    lengths: torch.Tensor
    pinned: bool = False

    def pin_memory(self):
        return Padded(self.values, self.lengths, True)


def pad(samples):
    lengths = torch.tensor([1 + int(sample["more"][0]) % 3 for sample in samples])
    values = torch.zeros(len(samples), 3)
    for row, sample, length in zip(values, samples, lengths, strict=True):
        row[:length] = sample["x"][:length]
    return Padded(values, lengths)


@pytest.mark.parametrize("pin", [False, True])
def test_custom_batches(context, pin) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without a GPU
        loader = DataLoader(
            Numbers(),
            batch_size=6,
            num_workers=WORKERS,
            collate_fn=pad,
            pin_memory=pin,
            multiprocessing_context=context,
        )
        batches = list(loader)
    expected = [pad([Numbers()[i] for i in range(first, first + 6)]) for first in range(0, 24, 6)]
    for batch, wanted in zip(batches, expected, strict=True):
        assert batch.values.equal(wanted.values)
        assert batch.lengths.equal(wanted.lengths)
        assert batch.values.is_shared()
        assert batch.pinned == (pin and torch.cuda.is_available())


class Failing(Numbers):
    def __getitem__(self, index):
        if index == 9:
            raise KeyError("sample 9")
        return super().__getitem__(index)


@pytest.mark.thorough
def test_error_of_a_data_set_is_raised_as_by_torch(context) -> None:
    loader = DataLoader(Failing(), batch_size=4, num_workers=WORKERS, multiprocessing_context=context)
    batches = iter(loader)
    assert [int(next(batches)["more"][0][0]) for _ in range(2)] == [0, 4]
    with pytest.raises(KeyError, match="sample 9"):
        next(batches)
    assert int(next(batches)["more"][0][0]) == 12, "the worker continues"


class Killed(Numbers):
    def __getitem__(self, index):
        if index == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def test_killed_worker_is_reported_as_by_torch(context) -> None:
    loader = DataLoader(Killed(), batch_size=4, num_workers=WORKERS, multiprocessing_context=context)
    with pytest.raises(RuntimeError, match=r"DataLoader worker .*(killed by signal|exited unexpectedly)"):
        list(loader)


class Slow(Numbers):
    def __getitem__(self, index):
        time.sleep(30 if index == 9 else 0)
        return super().__getitem__(index)


def test_timeout_of_a_loader(context) -> None:
    loader = DataLoader(Slow(), batch_size=4, num_workers=1, timeout=1, multiprocessing_context=context)
    batches = iter(loader)
    assert int(next(batches)["more"][0][0]) == 0
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        list(batches)
