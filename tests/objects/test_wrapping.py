"""from_numpy, frombuffer and from_dlpack wrap private memory: nothing is copied, and it is kept alive."""

from __future__ import annotations

import gc
import mmap
import weakref

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.dtypes import every_dtype, same_elements, some_array
from tests.helpers.live_resources import live_resources


@every_dtype
def test_arrays_of_every_dtype_are_wrapped(dtype) -> None:
    before = live_resources()
    array = some_array(dtype)[::-1, 1:]
    tensor = st.from_numpy(array)
    assert not tensor.is_shared()
    assert tensor.data_ptr() == array.__array_interface__["data"][0]
    assert (tensor.dtype, tensor.shape, tensor.strides) == (array.dtype, array.shape, array.strides)
    assert same_elements(tensor.numpy(), array)
    assert live_resources() == before, "no block was allocated"


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a[1:, ::-1],
        lambda a: a.T[::-2],
        lambda a: a[2, 3],
        lambda a: a[..., None],
        lambda a: a[2, 3, None, None],
        lambda a: a[:0],
        lambda a: np.broadcast_to(a[0], (3, 5)),
        lambda a: np.lib.stride_tricks.as_strided(a[1:], (2, 3), (-40, 8)),
        lambda a: np.frombuffer(a, "u1")[3:19].view("f8"),
    ],
)
def test_wrapping_keeps_strides(view) -> None:
    array = np.asarray(view(np.arange(20.0).reshape(4, 5)))
    tensor = st.from_numpy(array)
    assert (tensor.shape, tensor.strides) == (array.shape, array.strides)
    assert same_elements(tensor.numpy(), array)
    low, high = (
        np.lib.array_utils.byte_bounds(array) if hasattr(np.lib, "array_utils") else np.byte_bounds(array)
    )
    assert tensor.storage().data_ptr() == low or array.size == 0
    assert tensor.storage().nbytes == high - low or array.size == 0, "the storage is what the elements span"


def test_wrapped_array_and_tensor_see_each_others_writes() -> None:
    array = np.zeros((2, 3))
    tensor = st.from_numpy(array.T)
    tensor[0, 1] = 5
    array[0, 2] = 6
    assert array.tolist() == [[0, 0, 6], [5, 0, 0]]
    assert tensor.tolist() == [[0, 5], [0, 0], [6, 0]]


def test_wrapped_array_lives_as_long_as_tensor_or_view() -> None:
    array = np.arange(10.0)
    gone = weakref.ref(array)
    tensor = st.from_numpy(array)
    del array
    gc.collect()
    assert gone() is not None
    view = tensor[2:4].numpy()
    del tensor
    gc.collect()
    assert gone() is not None
    assert view.tolist() == [2, 3]
    del view
    gc.collect()
    assert gone() is None, "and no longer"


def test_readonly_array_gives_readonly_tensor() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    tensor = st.from_numpy(array)
    assert tensor.readonly
    assert tensor.storage().readonly
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 1


def test_buffer_is_wrapped_like_numpy() -> None:
    content = bytearray(np.arange(6, dtype="i2").tobytes())
    tensor = st.frombuffer(content, "i2", count=3, offset=2)
    assert tensor.tolist() == [1, 2, 3]
    tensor[0] = 9
    assert np.frombuffer(content, "i2").tolist() == [0, 9, 2, 3, 4, 5]
    assert st.frombuffer(bytearray(16)).dtype == np.float64
    assert st.frombuffer(b"").shape == (0,)


@pytest.mark.parametrize(
    "buffer", [b"12345678", memoryview(bytearray(8)).toreadonly()], ids=["bytes", "view"]
)
def test_readonly_buffer_gives_readonly_tensor(buffer) -> None:
    tensor = st.frombuffer(buffer, "u1")
    assert tensor.readonly
    assert not tensor.numpy().flags.writeable


def test_wrapped_buffer_cannot_be_resized() -> None:
    content = bytearray(8)
    tensor = st.frombuffer(content)
    with pytest.raises(BufferError):
        content.append(1)
    del tensor
    content.append(1)


def test_wrapped_mmap_cannot_be_closed() -> None:
    with mmap.mmap(-1, 4096) as mapped:
        tensor = st.frombuffer(mapped, "i4")
        tensor[0] = 5
        with pytest.raises(BufferError):
            mapped.close()
        del tensor
        assert mapped[0] == 5


def test_closed_buffers_are_rejected() -> None:
    mapped = mmap.mmap(-1, 4096)
    mapped.close()
    released = memoryview(b"abc")
    released.release()
    for closed in (mapped, released):
        with pytest.raises(ValueError, match=r"closed|released"):
            st.frombuffer(closed, "u1")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dtype": "f8"}, "multiple of element size"),
        ({"dtype": "u1", "count": 13}, "smaller than requested"),
        ({"dtype": "u1", "offset": 13}, "offset.*12"),
        ({"dtype": "u1", "offset": -1}, "offset.*12"),
        ({"dtype": object}, "OBJECT"),
    ],
)
def test_buffer_size_mismatch_raises_like_numpy(options, text) -> None:
    with pytest.raises(ValueError, match=text):
        np.frombuffer(bytearray(12), **options)
    with pytest.raises(ValueError, match=text):
        st.frombuffer(bytearray(12), **options)


def test_noncontiguous_buffer_is_rejected() -> None:
    with pytest.raises(BufferError, match="contiguous"):
        st.frombuffer(memoryview(b"12345678")[::2], "u1")


def test_wrapped_tensor_keeps_its_block(strategy) -> None:
    before = live_resources()
    tensor = st.zeros(4)
    for wrap in (st.frombuffer, lambda t: st.from_numpy(t.numpy()), st.from_dlpack):
        wrapper = wrap(tensor)
        assert wrapper.data_ptr() == tensor.data_ptr()
    del tensor
    assert live_resources()[0] == before[0] + 1
    del wrapper
    assert live_resources() == before
