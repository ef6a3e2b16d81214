"""Arrays of CuPy, torch, numba and JAX in both directions; on a GPU only, if the library is installed."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import workers
from tests.cuda.harness import Machine
from tests.helpers.children import run_python

ON_A_GPU = pytest.mark.gpu  # tests/integrations has those that run on the simulated driver, too

VALUES = np.arange(6, dtype="f4").reshape(2, 3)

# How a library converts a NumPy array, takes over a tensor of shmtensor, and copies an array to the host.
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

# The programs of `torch_weights`, and of `torch_tensors`, which import torch.
WEIGHT_PROGRAMS = ("buckets", "example", "killed_engines", "killed_trainer", "killed_trainer_in_place")
TORCH_PROGRAMS = (
    "memory_of_ours",
    "copies",
    "copies_after_events",
    "copies_from_streams",
    "received_in_a_stream",
    "received_during_a_capture",
    "in_place",
    "ended_producer",
    "killed_consumer",
    "views_and_parameters",
    "layouts_and_dtypes",
    "elsewhere",
    "by_name",
    "options",
)

# Those of `torch_batches`.
BATCH_PROGRAMS = (
    "batches_arrive_pinned",
    "batch_is_kept_until_it_is_copied",
    "release_during_a_capture",
    "pinned_again_after_pages_were_discarded",
    "tensors_of_many_sizes",
    "killed_worker",
    "forked_child",
    "elsewhere",
)

PROGRAMS = [
    (f"tests.cuda.{module}", name)
    for module, names in (
        ("torch_tensors", TORCH_PROGRAMS),
        ("torch_batches", BATCH_PROGRAMS),
        ("torch_weights", WEIGHT_PROGRAMS),
    )
    for name in names
]

SWAP = "torch.UntypedStorage._swap_data_ptr_"  # which `alias=True` needs
TIMEOUT = 55.0  # the first import reads a library from the disk
MODEST = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # otherwise JAX allocates three quarters of the GPU


@functools.cache
def import_problem(name: str, needed: str = "None") -> str | None:
    """Return why a library, or what is needed of it, cannot be imported here; None if it can.

    Another process imports it, since an import leaves descriptors and threads.
    """
    program = f"""
        try:
            import {name}
            {needed}
        except (ImportError, AttributeError) as error:
            print("cannot be imported:", repr(error))
    """
    done = run_python(program, timeout=TIMEOUT, env=MODEST)
    _, cannot, reason = done.stdout.partition("cannot be imported: ")
    return reason if cannot else None


@ON_A_GPU
@pytest.mark.parametrize("name", KNOWN)
def test_arrays_round_trip_through_library(name: str, tmp_path) -> None:
    if reason := import_problem(name):
        pytest.skip(f"{name}: {reason}")
    call = f"from tests.cuda.test_libraries import round_trip as f; f({name!r})"
    Machine("gpu", tmp_path).run(call, timeout=TIMEOUT, **MODEST)


@ON_A_GPU
@pytest.mark.parametrize(("module", "name"), PROGRAMS)
def test_program_with_torch(module: str, name: str, tmp_path) -> None:
    needed = SWAP if name.endswith("in_place") else "None"
    if reason := import_problem("torch._C._cudart") or import_problem("torch", needed):
        pytest.skip(f"torch with CUDA: {reason}")
    Machine("gpu", tmp_path).run_main(module, name, timeout=TIMEOUT)


def test_broken_library_is_skipped(tmp_path, monkeypatch) -> None:
    """Regression: only absent libraries were skipped, not those whose import raises ImportError."""
    (tmp_path / "broken.py").write_text("raise ImportError('needs another NumPy')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "needs another NumPy" in (import_problem("broken") or "")
    assert "ModuleNotFoundError" in (import_problem("nowhere") or "")
    assert import_problem("numpy") is None


def round_trip(name: str) -> None:
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
    if name != "jax.numpy":  # its arrays are immutable
        assert np.array_equal(show(library, array), VALUES + 1)
    assert np.array_equal(show(library, take(library, own)), VALUES + 1)
