"""The buffer protocol: formats, strides, read-only flags and errors are those of NumPy's arrays."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from hypothesis import given

import shmtensor as st
from tests.helpers.dtypes import every_dtype, some_array
from tests.helpers.generators import generated, tensors
from tests.helpers.live_resources import live_resources

pytestmark = pytest.mark.usefixtures("strategy")

FIELDS = (
    "format",
    "itemsize",
    "ndim",
    "shape",
    "strides",
    "nbytes",
    "readonly",
    "c_contiguous",
    "f_contiguous",
)


def description(exporter) -> list | None:
    """Return the format of a memoryview of the tensor; None if the dtype has none."""
    try:
        view = memoryview(exporter)
    except (ValueError, BufferError):
        return None
    return [*(getattr(view, field) for field in FIELDS), view.tobytes()]


def check(tensor: st.Tensor) -> None:
    array = tensor.numpy()
    expected = description(array)
    if expected is not None:
        try:
            survives = np.asarray(memoryview(array)).dtype == array.dtype
        except RuntimeError:
            survives = False
        if not survives:  # a buffer would mislead np.asarray(tensor)
            expected = None
    assert description(tensor) == expected


@every_dtype
def test_buffer_format_of_every_dtype(dtype) -> None:
    check(st.asarray(some_array(dtype)))


@generated(200)
@given(tensors())
def test_buffer_supports_any_strides(tensor) -> None:
    check(tensor)


def test_dtype_without_format_exports_only_bytes() -> None:
    tensor = st.ones(3, [(("title", "name"), "u1")])
    with pytest.raises(BufferError, match=r"cannot describe dtype.*title.*use numpy"):
        memoryview(tensor)
    assert np.asarray(tensor).dtype == tensor.dtype
    assert hashlib.sha256(tensor).digest() == hashlib.sha256(b"\1\1\1").digest()


def test_writes_through_memoryview_reach_the_tensor() -> None:
    tensor = st.zeros((2, 3), "i4")
    view = memoryview(tensor[:, ::2])
    view[1, 1] = 7
    assert tensor.tolist() == [[0, 0, 0], [0, 0, 7]]


def test_memoryview_keeps_memory_until_released() -> None:
    before = live_resources()
    view = memoryview(st.full(4, 3, "u1"))
    assert live_resources()[0] == before[0] + 1
    assert bytes(view) == b"\3\3\3\3"
    view.release()
    assert live_resources() == before


def test_readonly_tensor_refuses_writable_buffer() -> None:
    tensor = st.zeros(8, "u1").as_readonly()
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(b"12345678").readinto(tensor)
    assert tensor.tolist() == [0] * 8


def test_noncontiguous_tensor_refuses_simple_buffer() -> None:
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        hashlib.sha256(st.zeros((4, 4))[:, ::2])


def test_files_and_hashes_accept_tensors() -> None:
    tensor = st.zeros(8, "u1")
    assert io.BytesIO(b"12345678").readinto(tensor) == 8
    assert bytes(tensor) == b"12345678"
    assert hashlib.sha256(tensor).digest() == hashlib.sha256(b"12345678").digest()
    out = io.BytesIO()
    assert out.write(tensor[2:5]) == 3
    assert out.getvalue() == b"345"


@pytest.mark.parametrize("shape", [(), (1,), (1, 10), (10, 1), (0,), (3, 4)])
def test_tensors_in_c_order_need_no_help_of_numpy(shape) -> None:
    tensor = st.zeros(shape)
    assert memoryview(tensor).obj is tensor, "an array exports it"
    assert description(tensor) == description(tensor.numpy())
