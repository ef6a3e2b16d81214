"""Attributes of a tensor: strides in bytes, storage identity, offsets, devices, repr, its class."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import shmtensor as st

pytestmark = pytest.mark.usefixtures("strategy")


def test_views_share_one_storage_object() -> None:
    tensor = st.zeros((4, 5))
    views = [
        tensor[1:],
        tensor.T,
        tensor[0, 0],
        tensor.reshape(-1)[3:],
        tensor.as_readonly(),
        tensor.view("u1"),
    ]
    assert all(view.storage() is tensor.storage() for view in views)
    assert tensor.storage().nbytes == 160
    assert st.zeros((4, 5)).storage() is not tensor.storage()


def test_strides_and_offsets_are_in_bytes() -> None:
    tensor = st.zeros((4, 5), "i2")
    assert tensor.strides == (10, 2)
    flipped = tensor[::-1, ::2]
    assert (flipped.strides, flipped.storage_offset()) == ((-10, 4), 30)
    assert tensor[2, 3].storage_offset() == 26
    assert tensor[1].data_ptr() == tensor.data_ptr() + 10 == tensor.storage().data_ptr() + 10
    repeated = st.Tensor(tensor.storage(), "i2", (3, 4), (0, 2))
    assert repeated.strides == (0, 2)
    repeated.fill_(7)
    assert (tensor.numpy() == 7).sum() == 4


@pytest.mark.parametrize(
    ("make", "contiguous"),
    [
        (lambda t: t, True),
        (lambda t: t[1:], True),
        (lambda t: t[:, 1:], False),
        (lambda t: t.T, False),
        (lambda t: t[:, :1].T, False),
        (lambda t: t[0], True),
        (lambda t: t[:, :0], True),
        (lambda t: t[::-1], False),
        (lambda t: t[:1, ::1], True),
        (lambda t: t[2, 3], True),
    ],
)
def test_is_contiguous_means_c_order_without_gaps(make, contiguous) -> None:
    view = make(st.zeros((3, 4)))
    assert view.is_contiguous() is contiguous is view.numpy().flags.c_contiguous


def test_cpu_device_and_to_cpu_return_the_tensor_itself() -> None:
    tensor = st.zeros(3)
    assert tensor.device == tensor.storage().device == "cpu"
    assert tensor.to("cpu") is tensor.cpu() is tensor


def test_cupy_conversion_requires_cupy(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match="cupy"):
        st.zeros(3).cupy()


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (lambda: st.asarray([1, 2]), "Tensor([1, 2], dtype=int64, shared)"),
        (lambda: st.asarray(1.5), "Tensor(1.5, dtype=float64, shared)"),
        (lambda: st.asarray([1.0]).as_readonly(), "Tensor([1.], dtype=float64, shared, read-only)"),
        (lambda: st.from_numpy(np.array([True])), "Tensor([ True], dtype=bool, private)"),
        (lambda: st.zeros((0, 3), "f4"), "Tensor([], shape=(0, 3), dtype=float32, shared)"),
        (
            lambda: st.asarray([[1, 2], [3, 4]], "u1"),
            "Tensor([[1, 2],\n        [3, 4]], dtype=uint8, shared)",
        ),
        (lambda: st.zeros(1, "S2"), "Tensor([b''], dtype=|S2, shared)"),
    ],
)
def test_repr_shows_elements_dtype_and_whether_they_are_shared(tensor, text) -> None:
    assert repr(tensor()) == str(tensor()) == text


def test_repr_of_a_large_tensor_is_short() -> None:
    assert len(repr(st.zeros(1_000_000))) < 200


@pytest.mark.parametrize("name", ["sum", "mean", "astype", "argmax", "cumsum", "flat", "real", "sort"])
def test_missing_ndarray_methods_raise_with_hint(name) -> None:
    """Regression: the error for `tensor.sum()` named no remedy."""
    tensor = st.ones(3)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': use \.numpy\(\)\.{name}") as caught:
        getattr(tensor, name)
    assert caught.value.name == name
    assert caught.value.obj is tensor
    assert getattr(tensor, name, None) is None
    assert not hasattr(tensor, name)
    assert not hasattr(st.Tensor, name)
    assert name not in dir(tensor)
    assert name not in dir(st.Tensor)


@pytest.mark.parametrize(
    ("name", "way"), [("cuda", r'\.to\("cuda"\)'), ("numel", r"\.size"), ("unsqueeze", r"None as an index")]
)
def test_missing_methods_of_torch_raise_with_hint(name, way) -> None:
    tensor = st.ones(3)
    with pytest.raises(AttributeError, match=f"no attribute '{name}': use {way}"):
        getattr(tensor, name)
    assert not hasattr(st.Tensor, name)
    assert name not in dir(tensor)


def test_shape_is_not_set_but_changed_by_reshape() -> None:
    tensor = st.ones(3)
    with pytest.raises(AttributeError, match="cannot be set: use reshape"):
        tensor.shape = (3, 1)
    assert tensor.shape == (3,)


def test_error_for_values_names_asarray() -> None:
    with pytest.raises(TypeError, match=r"not \[1\]; shmtensor\.asarray"):
        st.Tensor([1])
    with pytest.raises(TypeError, match="missing required argument 'dtype'"):
        st.Tensor(st.Storage(8))
    with pytest.raises(AttributeError, match="no attribute 'array': use asarray"):
        _ = st.array


def test_other_missing_names_raise_plain_attribute_error() -> None:
    tensor = st.ones(3, "datetime64[s]")
    with pytest.raises(AttributeError, match=r"'Tensor' object has no attribute 'summ'$"):
        _ = tensor.summ
    with pytest.raises(AttributeError, match=r"'Tensor' object has no attribute '__array_struct__'$"):
        _ = tensor.__array_struct__
    with pytest.raises(AttributeError, match="has no __cuda_array_interface__"):
        _ = tensor.__cuda_array_interface__
    with pytest.raises(AttributeError, match="read-only"):
        tensor.sum = 1


def test_tensor_classes_cannot_be_subclassed() -> None:
    for base in (st.Tensor, st.Storage):
        with pytest.raises(TypeError, match=f"{base.__name__} cannot be subclassed.*another process"):
            type("Mine", (base,), {})


def test_names_and_annotations_match_the_public_module() -> None:
    assert st.Tensor.__module__ == "shmtensor.tensor"
    assert isinstance(st.zeros(1), st.Tensor)
    assert type(st.zeros(1)) is type(st.Tensor(st.Storage(8), "f8", 1)) is st.Tensor
