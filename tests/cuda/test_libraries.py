"""CuPy, torch, numba and JAX, in and out; on a GPU only, each where it is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import workers
from tests.cuda.harness import Machine

pytestmark = pytest.mark.gpu  # no library runs on the simulated driver

VALUES = np.arange(6, dtype="f4").reshape(2, 3)

# How a library makes an array of a NumPy one, takes a tensor of ours over, and shows one on the host.
KNOWN: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "cupy": (
        lambda cupy: cupy.asarray(VALUES),
        lambda cupy, tensor: cupy.from_dlpack(tensor),
        lambda cupy, array: cupy.asnumpy(array),
    ),
    "torch": (
        lambda torch: torch.tensor(VALUES, device="cuda"),
        lambda torch, tensor: torch.from_dlpack(tensor),
        lambda torch, array: array.cpu().numpy(),
    ),
    "numba.cuda": (
        lambda cuda: cuda.to_device(VALUES),
        lambda cuda, tensor: cuda.as_cuda_array(tensor),
        lambda cuda, array: array.copy_to_host(),
    ),
    "jax.numpy": (
        lambda jnp: jnp.asarray(VALUES),
        lambda jnp, tensor: importlib.import_module("jax.dlpack").from_dlpack(tensor),
        lambda jnp, array: np.asarray(array),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_in_and_out(name: str, tmp_path) -> None:
    pytest.importorskip(name)
    Machine("gpu", tmp_path).run(f"from tests.cuda.test_libraries import there_and_back as f; f({name!r})")


def there_and_back(name: str) -> None:
    library = importlib.import_module(name)
    make, take, show = KNOWN[name]
    array = make(library)
    tensor = st.asarray(array)
    assert np.array_equal(tensor.cpu().numpy(), VALUES)
    own = st.asarray(VALUES, device="cuda")
    assert np.array_equal(show(library, take(library, own)), VALUES)
    pair = workers.Pair(workers.echo)
    for sent in (tensor, own):
        pair.put(sent)
        back = pair.get()
        assert back.storage() is sent.storage()
        assert np.array_equal(back.cpu().numpy(), VALUES + 1)
    pair.end()
    if name != "jax.numpy":  # whose arrays do not change
        assert np.array_equal(show(library, array), VALUES + 1)
    assert np.array_equal(show(library, take(library, own)), VALUES + 1)
