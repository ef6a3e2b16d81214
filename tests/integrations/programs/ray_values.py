"""Actors exchange values and write into them. Argument: "on" with the integration, "off" without."""

import ray
import torch

import shmtensor as st
from tests.helpers.ray_programs import ON, connected, place, transport

if ON:
    st.install("ray")


def makers():
    floats = torch.arange(500_000, dtype=torch.float64).reshape(1000, 500)
    return {
        "plain": floats.clone,
        "transposed": floats.t,
        "strided": lambda: floats[::2, 1::3],
        "expanded": lambda: floats[0].expand(300, 500),
        "bfloat16": floats.bfloat16,
        "bool": lambda: floats % 3 == 0,
        "complex": lambda: torch.complex(floats, floats),
        "conjugate": lambda: torch.complex(floats, floats).conj(),
        "scalar": lambda: torch.tensor(3.5),
        "empty": lambda: torch.zeros(0, 5),
        "leaf": lambda: floats.clone().requires_grad_(),
        "result": lambda: floats.clone().requires_grad_() * 2,
        "parameter": lambda: torch.nn.Parameter(floats.clone()),
        "sparse": lambda: torch.eye(100).to_sparse(),
        "list": lambda: [floats + i for i in range(3)],
        "dict": lambda: {"x": floats + 1, "y": {"z": floats[:500].clone()}, "n": 7, "s": "text"},
        "model": lambda: torch.nn.Linear(300, 300).state_dict(),
        "none": lambda: [1, "no tensor"],
    }


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors(part)


def describe(value):
    """Return what a program can find out about a value."""
    found = []
    for tensor in tensors(value):
        dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
        content = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
        strides = () if tensor.is_sparse else tensor.stride()
        found.append(
            (
                type(tensor).__name__,
                str(tensor.dtype),
                tuple(tensor.shape),
                strides,
                tensor.requires_grad,
                tensor.is_conj(),
                tensor.is_leaf,
                content.double().sum().item(),
            )
        )
    return type(value).__name__, len(value) if isinstance(value, (dict, list)) else 1, found


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Actor:
    @ray.method(**transport())
    def make(self, name):
        torch.manual_seed(1)
        self.made = makers()[name]()
        return self.made

    def describe(self, value):
        return describe(value)

    def describe_made(self):
        return describe(self.made)

    def write(self, value):
        for tensor in tensors(value):
            if tensor.is_leaf and not tensor.is_sparse and 0 not in tensor.stride():
                tensor.detach().logical_not_() if tensor.dtype == torch.bool else tensor.detach().add_(1)
        return describe(value)

    def places(self, value):
        return [place(tensor) for tensor in tensors(value)]


if __name__ == "__main__":
    with connected():
        first, second, third = (Actor.remote() for _ in range(3))
        for name in makers():
            made = first.make.remote(name)
            print(name, ray.get(second.describe.remote(made)))
            print(name, ray.get([second.write.remote(made), third.write.remote(made)]))
            print(name, ray.get([second.describe.remote(made), first.describe_made.remote()]))
            if ON:
                found = ray.get(second.places.remote(made))
                by_pickle = name in ("sparse", "empty", "conjugate")
                assert set(found) <= {"private" if by_pickle else "view"}, (name, found)
                assert bool(found) == bool(st.stats()["blocks"]), name
            print(name, describe(ray.get(made)))
            del made
