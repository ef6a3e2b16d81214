"""Torch's tensors over read-only memory: a write copies its pages, and no other process sees it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shmtensor as st
import shmtensor.multiprocessing as mp

pytestmark = pytest.mark.usefixtures("torch_installed")

SECONDS = 60
BIG = 1 << 20  # elements of 4 bytes


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.BatchNorm1d(200), torch.nn.Linear(200, 1))


def train(state: Any) -> list[float]:
    """Fine-tune from shared weights; return the losses."""
    tuned, losses = model(), []
    tuned.load_state_dict(state, assign=True)
    optimizer = torch.optim.SGD(tuned.parameters(), lr=0.1)
    x = torch.linspace(-1, 1, 64 * 300).reshape(64, 300)
    for _ in range(5):
        optimizer.zero_grad()
        loss = (tuned(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def holders() -> dict[str, Any]:
    """Return what shares a state in read-only memory, by name; each call of a value gives the state."""
    state = model().state_dict()
    latest, broadcast = st.Latest(state), st.Broadcast(2)
    reader = broadcast.reader()
    broadcast.put(state)
    shared = st.SharedDict(state)
    cache: st.SharedCache[Any] = st.SharedCache()
    cache.get("state", lambda: state)
    return {
        "SharedDict": lambda: shared,
        "SharedList": lambda: dict(zip(shared, st.SharedList([shared[key] for key in shared]), strict=True)),
        "SharedCache": lambda: cache["state"],
        "Latest": latest.get,
        "Broadcast": reader.get,
    }


@pytest.mark.parametrize("name", ["SharedDict", "SharedList", "SharedCache", "Latest", "Broadcast"])
def test_fine_tuning(name: str) -> None:
    expected = train(model().state_dict())
    assert train(holders()[name]()) == pytest.approx(expected)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_fine_tune_at_the_same_time(method: str) -> None:
    state = st.SharedDict(model().state_dict())
    with mp.get_context(method).Pool(2) as pool:
        results = pool.map(train, [state] * 4)
    assert results == [results[0]] * 4
    assert all(state[name].equal(tensor) for name, tensor in model().state_dict().items())


@pytest.mark.parametrize("count", [1, 100, BIG])
def test_writes_stay_in_one_tensor(count: int) -> None:
    state = st.SharedDict({"before": torch.ones(3), "w": torch.ones(count), "after": torch.ones(3)})
    mine = state["w"]
    mine.mul_(3)
    assert mine.sum() == 3 * count
    assert state["w"].sum() == count
    assert state["before"].tolist() == state["after"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("count", [1, 100, BIG])
def test_writes_stay_in_one_tensor_of_a_cache(count: int) -> None:
    cache: st.SharedCache[Any] = st.SharedCache()
    built = cache.get("w", lambda: torch.ones(count))
    built.mul_(3)
    assert built.sum() == 3 * count
    other = cache["w"]
    assert other.sum() == count
    other.zero_()
    assert built.sum() == 3 * count
    assert cache.get("pair", lambda: (torch.ones(count), 5))[0].add_(1).sum() == 2 * count
    tensor, label = cache["pair"]
    assert (tensor.sum(), label) == (count, 5)


def copied() -> int:
    """Return the private memory of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"RssAnon:\s*(\d+)", status)[1])


def test_memory_of_what_is_written_only() -> None:
    state = st.SharedDict({"w": torch.ones(16 * BIG)})
    before = copied()
    mine = state["w"]
    assert mine.sum() == 16 * BIG
    assert copied() - before < 8 << 20
    mine[: 4 * BIG] = 2
    grown = copied() - before
    assert 16 << 20 <= grown < 24 << 20
    del mine
    assert copied() - before < 8 << 20


def send(item: Any) -> Any:
    queue: st.Queue[Any] = st.Queue()
    queue.put(item)
    return queue.get()


def blocks() -> int:
    return st.stats()["blocks"]


def test_unchanged_tensor_is_sent_as_a_handle() -> None:
    state = st.SharedDict({"v": torch.ones(BIG), "w": torch.arange(BIG)})
    mine = state["w"]
    before = blocks()
    queue: st.Queue[Any] = st.Queue()
    queue.put(mine)
    queue.put({"part": mine[10:]})
    assert blocks() == before + 3, "the queue, and two parcels"
    assert queue.get().equal(torch.arange(BIG))
    assert queue.get()["part"].equal(torch.arange(10, BIG))


def test_changed_tensor_is_sent_as_it_is() -> None:
    mine = st.SharedDict({"w": torch.arange(BIG)})["w"]
    mine[-1] = 7
    found = send(mine)
    assert (found[-1], found[-2]) == (7, BIG - 2)
    found[0] = 5
    assert mine[0] == 0


def test_memory_that_is_used_again_has_no_earlier_page() -> None:
    places = set()
    for number in range(20):
        state = st.SharedDict({"w": torch.full((BIG,), float(number))})
        mine = state["w"]
        assert (mine == number).all()
        mine += 0.5
        assert (mine == number + 0.5).all()
        places.add(np.asarray(st.SharedDict({"a": np.ones(BIG)})["a"]).__array_interface__["data"][0])
        del state, mine
    assert len(places) < 20, "no memory was used again"


def change_in_child(state: Any, results: Any) -> None:
    mine = state["w"]
    mine.zero_()
    results.put(mine.sum().item())


def test_forked_child_has_pages_of_its_own() -> None:
    state, results = st.SharedDict({"w": torch.ones(BIG)}), st.Queue()
    mine = state["w"]
    mine[0] = 2
    process: Any = mp.get_context("fork").Process(target=change_in_child, args=({"w": mine}, results))
    process.start()
    assert results.get(timeout=SECONDS) == 0
    process.join()
    assert mine.sum() == BIG + 1
