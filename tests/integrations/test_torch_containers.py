"""Torch's tensors in `SharedDict` and `SharedList`: each access gives a tensor of its own, without a copy."""

from __future__ import annotations

import pytest
import torch

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.memory import process_memory

pytestmark = pytest.mark.usefixtures("torch_installed")


def test_state_dict_is_shared() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20))
    state = st.SharedDict(model.state_dict())
    assert list(state) == list(model.state_dict())
    for name, tensor in model.state_dict().items():
        found = state[name]
        assert found.equal(tensor)
        assert found.dtype == tensor.dtype
        assert found.stride() == tensor.stride()
    other = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20))
    other.load_state_dict(state, assign=True)
    x = torch.randn(4, 30)
    assert other.eval()(x).equal(model.eval()(x))


def grown(state):
    """Return by how many bytes this process's private memory grows when it reads all values."""
    before = process_memory().uss
    values = [state[name] for name in state]
    total = sum(value.sum().item() for value in values)
    return process_memory().uss - before, total


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_reader_has_no_copy(method) -> None:
    """Regression: a worker that read 128 MiB of torch's tensors grew by 159 MiB."""
    state = st.SharedDict({f"w{i}": torch.ones(1 << 20) for i in range(8)})  # 32 MiB
    small = st.SharedDict({"w": torch.ones(4)})
    with mp.get_context(method).Pool(1) as pool:
        pool.apply(grown, (small,))
        growth, total = pool.apply(grown, (state,))
    assert total == 8 << 20
    assert growth < 8 << 20


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(5),
        torch.empty(0, 3),
        torch.arange(12.0).view(3, 4).T,
        torch.arange(12.0).view(3, 4)[:, 1],
        torch.ones(3).expand(4, 3),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(3, dtype=torch.complex64),
        torch.tensor([True, False]),
        torch.nn.Parameter(torch.ones(2, 2)),
        torch.ones(3, requires_grad=True),
    ],
    ids=str,
)
def test_items_arrive(tensor) -> None:
    items = st.SharedList([tensor, {"nested": [tensor]}])
    for found in (items[0], items[1]["nested"][0]):
        assert type(found) is type(tensor)
        assert found.equal(tensor)
        assert (found.dtype, found.stride()) == (tensor.dtype, tensor.stride())
        assert found.requires_grad == tensor.requires_grad


def test_other_tensors_are_pickled_by_torch() -> None:
    sparse = torch.eye(3).to_sparse()
    assert st.SharedList([sparse])[0].to_dense().equal(sparse.to_dense())
    st.uninstall("torch")
    private = st.SharedList([torch.ones(1000)])
    assert private[0].data_ptr() != private[0].data_ptr() or not private[0].is_shared()
