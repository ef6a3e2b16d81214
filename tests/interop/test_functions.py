"""NumPy's functions take tensors where they take arrays."""

from __future__ import annotations

import io

import numpy as np
import pytest

import shmtensor as st

pytestmark = pytest.mark.usefixtures("strategy")

FUNCTIONS = {
    "concatenate": lambda t: np.concatenate([t, t]),
    "stack": lambda t: np.stack([t, t], axis=1),
    "vstack": lambda t: np.vstack([t, t]),
    "sum": np.sum,
    "sum of an axis": lambda t: np.sum(t, axis=0),
    "mean": np.mean,
    "std": lambda t: np.std(t, axis=1),
    "max": np.max,
    "argmax": np.argmax,
    "any": np.any,
    "sort": lambda t: np.sort(t, axis=0),
    "argsort": np.argsort,
    "cumsum": np.cumsum,
    "where": lambda t: np.where(t > 3, t, 0),
    "clip": lambda t: np.clip(t, 1, 4),
    "unique": np.unique,
    "transpose": np.transpose,
    "reshape": lambda t: np.reshape(t, (3, 2)),
    "ravel": np.ravel,
    "squeeze": lambda t: np.squeeze(t[None]),
    "expand_dims": lambda t: np.expand_dims(t, 0),
    "broadcast_to": lambda t: np.broadcast_to(t, (4, 2, 3)),
    "take": lambda t: np.take(t, [0, 2], axis=1),
    "matmul": lambda t: np.matmul(t, t.T),
    "einsum": lambda t: np.einsum("ij,kj", t, t),
    "linalg.norm": np.linalg.norm,
    "isfinite": np.isfinite,
    "allclose": lambda t: np.allclose(t, t),
    "array_equal": lambda t: np.array_equal(t, t),
    "round": np.round,
    "copy": np.copy,
    "zeros_like": np.zeros_like,
    "pad": lambda t: np.pad(t, 1),
    "histogram": lambda t: np.histogram(t)[0],
    "searchsorted": lambda t: np.searchsorted(t[0], 1.5),
    "interp": lambda t: np.interp(1.5, t[0], t[1]),
    "shape": np.shape,
    "ndim": np.ndim,
    "size": np.size,
    "iterating": lambda t: [float(np.sum(row)) for row in t],
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_numpy_functions_match_their_result_for_arrays(function) -> None:
    array = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(function(st.asarray(array)), function(array))


def test_arrays_accept_tensors_in_assignment() -> None:
    array = np.zeros((2, 3))
    array[1] = st.asarray([1, 2, 3])
    np.copyto(array[0], st.asarray(7))
    assert array.tolist() == [[7] * 3, [1, 2, 3]]


def test_numpy_saves_and_loads_tensors() -> None:
    file = io.BytesIO()
    np.save(file, st.asarray([1, 2]))
    file.seek(0)
    assert np.load(file).tolist() == [1, 2]


def test_random_generator_fills_tensor_through_its_array() -> None:
    tensor = st.empty(100)
    np.random.default_rng(5).random(out=tensor.numpy())
    np.testing.assert_array_equal(tensor, np.random.default_rng(5).random(100))


def test_numpy_testing_compares_tensors() -> None:
    np.testing.assert_array_equal(st.ones(3), np.ones(3))
    np.testing.assert_allclose(st.ones(3), st.ones(3))
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(st.ones(3), st.zeros(3))
