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
from tests.helpers.children import run_python

ON_A_GPU = pytest.mark.gpu  # no library runs on the simulated driver

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


TIMEOUT = 55.0  # reading a library from the disk for the first time takes long
MODEST = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # JAX would take three quarters of the GPU at its start


def why_not(name: str) -> str | None:
    """What an import says of a library that is absent or does not go with the others here.

    Asked of another process: an import leaves descriptors and threads behind.
    """
    program = f"""
        try:
            import {name}
        except ImportError as error:
            print("cannot be imported:", repr(error))
    """
    done = run_python(program, timeout=TIMEOUT, env=MODEST)
    _, cannot, reason = done.stdout.partition("cannot be imported: ")
    return reason if cannot else None


@ON_A_GPU
@pytest.mark.parametrize("name", KNOWN)
def test_arrays_round_trip_through_library(name: str, tmp_path) -> None:
    if reason := why_not(name):
        pytest.skip(f"{name}: {reason}")
    call = f"from tests.cuda.test_libraries import there_and_back as f; f({name!r})"
    Machine("gpu", tmp_path).run(call, timeout=TIMEOUT, **MODEST)


def test_broken_library_is_skipped(tmp_path, monkeypatch) -> None:
    """numba says "Numba needs NumPy 2.4 or less" in an ImportError; only an absent one was skipped."""
    (tmp_path / "broken.py").write_text("raise ImportError('needs another NumPy')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "needs another NumPy" in (why_not("broken") or "")
    assert "ModuleNotFoundError" in (why_not("nowhere") or "")
    assert why_not("numpy") is None


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
