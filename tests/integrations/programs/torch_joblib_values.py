"""Tensors as arguments and results of joblib. Arguments: a backend, "on" or "off"."""

import sys

import torch
from joblib import Parallel, delayed


def describe(value):
    if isinstance(value, torch.nn.Module):
        return [describe(one) for one in value.state_dict().values()]
    if not isinstance(value, torch.Tensor):
        return value
    kind = type(value).__name__, value.dtype, value.layout, tuple(value.size()), value.requires_grad
    content = value.detach().to_dense() if value.is_sparse else value.detach()
    return *kind, None if value.is_meta else content.resolve_conj().flatten()[:3].tolist()


def use(value):
    return describe(value), value


if __name__ == "__main__":
    backend, on = sys.argv[1:]
    if on == "on":
        import shmtensor as st

        st.install("joblib", "torch")
    elif backend == "shmtensor":
        backend = "loky"
    torch.manual_seed(0)
    leaf = torch.rand(300, 300)
    values = [
        leaf,
        leaf.t(),
        leaf[5:, ::2],
        torch.rand(3, dtype=torch.bfloat16),
        torch.zeros(0, 3),
        leaf.to_sparse(),
        torch.rand(3, dtype=torch.complex64).conj(),
        torch.rand(3, device="meta"),
        torch.rand(3, requires_grad=True),
        torch.nn.Parameter(torch.rand(40_000)),
        torch.nn.Linear(200, 100),
        {"nested": [leaf, 1]},
    ]
    for seen, value in Parallel(2, backend=backend)(delayed(use)(value) for value in values):
        if isinstance(value, dict):
            seen, value = describe(seen["nested"][0]), value["nested"][0]
        print(seen, describe(value))
