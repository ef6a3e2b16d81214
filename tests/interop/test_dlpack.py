"""DLPack both ways with NumPy: nothing is copied, versions are negotiated, read-only is respected."""

from __future__ import annotations

import ctypes
import gc
import time
import weakref
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import shmtensor as st
from shmtensor._cuda.foreign_arrays import dlpack_array
from tests.helpers.dtypes import NUMBERS, name_of, same_elements, some_array
from tests.helpers.live_resources import live_resources
from tests.helpers.threads import DEADLINE, run_together

pytestmark = pytest.mark.usefixtures("strategy")

VERSIONED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
versioned = pytest.mark.skipif(not VERSIONED, reason="NumPy has versioned DLPack since 2.1")

SUPPORTED = [d for d in NUMBERS if d.kind in "iufc" and d not in (np.longdouble, np.clongdouble)]
if np.lib.NumpyVersion(np.__version__) >= "1.25.0":
    SUPPORTED.append(np.dtype(bool))


class Exporter:
    """Another library's array, which supports only DLPack."""

    def __init__(self, array) -> None:
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)


class Given(Exporter):
    """Returns a capsule that was made before."""

    def __dlpack__(self, **options):
        return self.__dict__.pop("array")


@pytest.mark.parametrize("dtype", SUPPORTED, ids=name_of)
def test_numpy_imports_a_tensor_without_a_copy(dtype) -> None:
    source = some_array(dtype)
    tensor = st.asarray(source)
    for view, expected in ((tensor, source), (tensor[::-1, 1::2], source[::-1, 1::2]), (tensor.T, source.T)):
        array = np.from_dlpack(view)
        assert same_elements(array, expected)
        assert array.ctypes.data == view.data_ptr()


@pytest.mark.parametrize("dtype", SUPPORTED, ids=name_of)
def test_tensor_wraps_dlpack_exporter(dtype) -> None:
    source = some_array(dtype)
    before = live_resources()
    tensor = st.from_dlpack(Exporter(source[::-1]))
    assert not tensor.is_shared()
    assert tensor.data_ptr() == source[-1:].ctypes.data
    assert same_elements(tensor.numpy(), source[::-1])
    assert live_resources() == before


def test_exporter_lives_as_long_as_tensor() -> None:
    array = np.ones(3)
    gone = weakref.ref(array)
    tensor = st.from_dlpack(Exporter(array))
    del array
    gc.collect()
    assert gone() is not None
    del tensor
    gc.collect()
    assert gone() is None


def test_block_lives_as_long_as_capsule_or_array() -> None:
    before = live_resources()
    tensor = st.full(4, 5.0)
    capsule = tensor.__dlpack__()
    del tensor
    assert live_resources()[0] == before[0] + 1
    array = np.from_dlpack(Given(capsule))
    del capsule
    assert array.tolist() == [5] * 4
    assert live_resources()[0] == before[0] + 1
    del array
    assert live_resources() == before


def test_dlpack_device_is_cpu() -> None:
    assert st.zeros(3).__dlpack_device__() == (1, 0)


def test_unversioned_capsule_is_the_default() -> None:
    assert '"dltensor"' in repr(st.zeros(3).__dlpack__())
    assert '"dltensor"' in repr(st.zeros(3).__dlpack__(stream=None))


@versioned
def test_versioned_capsule_is_returned_on_request() -> None:
    tensor = st.zeros(3)
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=(2, 5)))
    assert '"dltensor"' in repr(tensor.__dlpack__(max_version=(0, 8)))
    assert '"dltensor"' in repr(tensor.__dlpack__(max_version=None))


@versioned
def test_readonly_tensor_needs_versioned_capsule() -> None:
    tensor = st.asarray([1.0, 2]).as_readonly()
    array = np.from_dlpack(tensor)
    assert array.ctypes.data == tensor.data_ptr()
    assert not array.flags.writeable
    assert st.from_dlpack(tensor).readonly
    assert not st.from_dlpack(st.zeros(3)).readonly
    assert np.from_dlpack(st.zeros(3)).flags.writeable


def test_unversioned_capsule_of_readonly_tensor_is_refused() -> None:
    with pytest.raises((BufferError, TypeError), match=r"read-?only|writeable"):
        st.asarray([1.0]).as_readonly().__dlpack__()


@versioned
def test_copy_and_device_arguments_are_honoured() -> None:
    tensor = st.asarray([1.0, 2])
    copy = np.from_dlpack(tensor, copy=True)
    assert copy.tolist() == [1, 2]
    assert copy.ctypes.data != tensor.data_ptr()
    assert np.from_dlpack(tensor, device="cpu", copy=False).ctypes.data == tensor.data_ptr()
    with pytest.raises(BufferError, match="device"):
        tensor.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize("dtype", [">f8", "S3", "U2", "M8[s]", "m8[s]", [("a", "f4")]], ids=str)
def test_dtypes_unknown_to_dlpack_are_rejected(dtype) -> None:
    with pytest.raises((BufferError, TypeError)):
        st.zeros(3, dtype).__dlpack__()


ROCM, CUDA = 10, 2


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        (ROCM, (BufferError, RuntimeError), r"(?i)device"),
        (CUDA, st.CudaError, r"no CUDA driver|does not know the address"),  # if it exists, it is called
    ],
)
def test_memory_of_other_device_is_rejected(kind, error, text) -> None:
    class Elsewhere:
        def __dlpack__(self, **options):
            capsule = np.ones(3).__dlpack__()
            get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
            get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            device_type = ctypes.c_int32.from_address(
                get_pointer(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)
            )
            assert device_type.value == 1
            device_type.value = kind
            return capsule

        def __dlpack_device__(self):
            return (kind, 0)

    with pytest.raises(error, match=text):
        st.from_dlpack(Elsewhere())


@pytest.mark.thorough
@pytest.mark.parametrize("version", [None, pytest.param((1, 0), marks=versioned)])
def test_one_of_several_threads_takes_a_capsule(version) -> None:
    class SameCapsule:
        def __init__(self, capsule) -> None:
            self.capsule = capsule

        def __dlpack__(self, **options):
            return self.capsule

        def __dlpack_device__(self):
            return (CUDA, 0)

    options = {} if version is None else {"max_version": version}
    sources = [np.ones(3) for _ in range(1000)]
    exporters = [SameCapsule(array.__dlpack__(**options)) for array in sources]
    taken: list[list] = [[] for _ in exporters]
    refusals: list[str] = []
    positions = [0, 0]  # of the threads, which stay together

    def take(number: int) -> None:
        end = time.monotonic() + DEADLINE
        for exporter, takers in zip(exporters, taken, strict=True):
            positions[number] += 1
            while positions[1 - number] < positions[number]:
                assert time.monotonic() < end
            try:
                takers.append(dlpack_array(exporter))
            except (TypeError, ValueError) as error:
                refusals.append(str(error))

    run_together(partial(take, 0), partial(take, 1))
    assert [len(takers) for takers in taken] == [1] * len(exporters)
    assert all("used before" in text for text in refusals), set(refusals)
    released = [weakref.ref(array) for array in sources]
    del sources
    assert all(array() is not None for array in released)
    taken.clear()
    assert not any(array() for array in released)


def test_objects_without_dlpack_raise_like_numpy() -> None:
    with pytest.raises(AttributeError, match="__dlpack__"):
        st.from_dlpack([1.0])


class Old(Exporter):
    """Supports DLPack before 1.0."""

    def __dlpack__(self):
        return self.array.__dlpack__()


def test_bfloat16_is_exported_and_imported_without_a_copy() -> None:
    """NumPy supports neither."""
    source = np.arange(6.0).reshape(2, 3).astype(ml_dtypes.bfloat16)
    tensor = st.asarray(source)
    for kind in (Exporter, Old):
        wrapped = st.from_dlpack(kind(tensor.T))
        assert wrapped.data_ptr() == tensor.data_ptr()
        assert wrapped.strides == tensor.T.strides
        assert wrapped.numpy().tolist() == source.T.tolist()
    with pytest.raises(BufferError, match="read-only tensor needs a consumer"):
        tensor.as_readonly().__dlpack__()
