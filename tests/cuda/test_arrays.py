"""The protocols of a tensor on a GPU: `__cuda_array_interface__` and DLPack."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device
from tests.cuda.device import Array
from tests.cuda.harness import case


class DlTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DlTensor),
    )


def opened(capsule, name: bytes):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    kind = Versioned if name == b"dltensor_versioned" else DlTensor
    return kind.from_address(get(capsule, name))


@case
def test_atomic_operations_need_a_tensor_of_the_host() -> None:
    tensor = st.zeros(3, np.int64, device="cuda")
    for index in (0, [0, 1]):
        with pytest.raises(TypeError, match="takes a tensor of the host; this one is on cuda:0"):
            st.atomic.add(tensor, index, 1)
        with pytest.raises(TypeError, match="cuda:0"):
            st.atomic.load(tensor, index)
    with pytest.raises(TypeError, match="cuda:0"):
        st.wait_for_change(tensor, 0, 0, timeout=0)
    assert tensor.tolist() == [0, 0, 0]


@pytest.mark.thorough
@case
def test_cuda_array_interface_describes_tensor() -> None:
    tensor = st.asarray(np.arange(6, dtype="i2").reshape(2, 3), device="cuda")
    assert tensor.__cuda_array_interface__ == {
        "version": 3,
        "shape": (2, 3),
        "typestr": "<i2",
        "data": (tensor.data_ptr(), False),
        "strides": None,
        "stream": 1,
    }
    assert device.read_interface(tensor).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tensor.T.__cuda_array_interface__["strides"] == (2, 6)
    assert tensor[1:].__cuda_array_interface__["data"] == (tensor.data_ptr() + 6, False)
    assert st.zeros((0, 3), device="cuda").__cuda_array_interface__["data"][0] == 0


@case
def test_foreign_cuda_array_interface_is_validated() -> None:
    array = Array(np.arange(4.0))
    good = array.__cuda_array_interface__

    def shared(**changes):
        class Other:
            __cuda_array_interface__ = good | changes
            owner = array

        return st.asarray(Other())

    assert shared(strides=(-8,), data=(array.pointer + 24, False)).tolist() == [3, 2, 1, 0]
    assert shared(shape=(0,), data=(0, False)).shape == (0,)
    assert shared(stream=None).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="stream 0"):
        shared(stream=0)
    with pytest.raises(ValueError, match="mask"):
        shared(mask=array)
    with pytest.raises(st.CudaError, match="does not know the address"):
        shared(data=(4096, False))
    with pytest.raises(st.CudaError, match="past the end of its allocation"):
        shared(shape=(10_000_000,))
    with pytest.raises(TypeError, match="to the host first"):
        st.zeros(4).copy_(array)
    target = st.empty(4, device="cuda")
    assert target.copy_(array).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="not float64"):
        st.empty(4, "f4", device="cuda").copy_(array)


@case
def test_dlpack_exports_both_versions() -> None:
    tensor = st.asarray(np.arange(6, dtype="f4").reshape(2, 3), device="cuda").T
    assert tensor.__dlpack_device__() == (2, 0)
    old = tensor.__dlpack__()
    capsule = tensor.__dlpack__(stream=1, max_version=(1, 1), dl_device=(2, 0))
    new = opened(capsule, b"dltensor_versioned")
    assert (new.major, new.flags) == (1, 0)
    for seen in (new.tensor, opened(old, b"dltensor")):
        assert (seen.data, seen.device_type, seen.device_id) == (tensor.data_ptr(), 2, 0)
        assert (seen.code, seen.bits, seen.lanes, seen.byte_offset) == (2, 32, 1, 0)
        assert seen.shape[:2] == [3, 2]
        assert seen.strides[:2] == [1, 3]
    readonly = tensor.as_readonly()
    capsule = readonly.__dlpack__(max_version=(1, 0))
    assert opened(capsule, b"dltensor_versioned").flags == 1
    with pytest.raises(BufferError, match="read-only"):
        readonly.__dlpack__()
    with pytest.raises(ValueError, match="stream 0"):
        tensor.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="cannot be exported"):
        tensor.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="no dtype"):
        st.zeros(2, "M8[s]", device="cuda").__dlpack__()
    capsule = tensor.__dlpack__(max_version=(1, 0), copy=True)
    assert opened(capsule, b"dltensor_versioned").tensor.data != tensor.data_ptr()

    class Host:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            return tensor.__dlpack__(dl_device=(1, 0), max_version=options.get("max_version"))

    assert np.from_dlpack(Host()).tolist() == tensor.tolist()
    with pytest.raises(ValueError, match="copy"):
        tensor.__dlpack__(dl_device=(1, 0), copy=False)


@case
def test_dlpack_capsule_keeps_memory() -> None:
    before = st.stats()["blocks"]
    capsule = st.zeros(3, device="cuda").__dlpack__()
    gc.collect()
    assert st.stats()["blocks"] == before + 1
    del capsule
    gc.collect()
    assert st.stats()["blocks"] == before


@case
def test_dlpack_consumer_stream_waits_for_default_stream() -> None:
    driver = device.library()
    stream = ctypes.c_void_p()
    device.check(driver.cuStreamCreate(ctypes.byref(stream), 1))
    tensor = st.zeros(3, device="cuda")
    latch = device.Latch().close()
    tensor.__dlpack__(stream=-1)
    assert driver.cuStreamQuery(stream) == 0, "with -1, no stream waits"
    tensor.__dlpack__(stream=stream.value)
    assert driver.cuStreamQuery(stream) == 600
    latch.open()
    device.check(driver.cuStreamSynchronize(stream))


class Exporter:
    """An array of a library that supports only DLPack; it records the arguments of the request."""

    def __init__(self, tensor, *, version: int | None = 1, kind: int = 2) -> None:
        self.tensor, self.version, self.kind, self.asked = tensor, version, kind, []

    def __dlpack_device__(self):
        return (self.kind, 0)

    def __dlpack__(self, **options):
        if self.version is None and "max_version" in options:
            msg = "__dlpack__() got an unexpected keyword argument 'max_version'"
            raise TypeError(msg)
        self.asked.append(options)
        return self.tensor.__dlpack__(**options)


@case
def test_foreign_dlpack_is_shared_without_copy() -> None:
    from tests.cuda import workers

    array = Array(np.arange(6, dtype="i4").reshape(2, 3))
    inside = st.asarray(array)  # it exports a DLPack capsule
    for version in (1, None):
        other = Exporter(inside.T, version=version)
        tensor = st.from_dlpack(other)
        assert tensor.data_ptr() == array.pointer
        assert (tensor.shape, tensor.strides, tensor.dtype) == ((3, 2), (4, 12), np.int32)
        assert other.asked[0]["stream"] == 1, "its work precedes the default stream's"
        assert tensor.tolist() == [[0, 3], [1, 4], [2, 5]]
    pair = workers.Pair(workers.echo)
    pair.put(st.asarray(Exporter(inside)))
    assert pair.get().data_ptr() == array.pointer
    pair.end()
    assert array.read().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert st.from_dlpack(Exporter(inside.as_readonly())).readonly
    del tensor, other, inside, pair
    gc.collect()
    del array
    device.wait_until(lambda: Array.alive == 0, "the owner")


@case
def test_unshareable_foreign_dlpack_is_copied_or_rejected() -> None:
    own = st.asarray([1.0, 2.0], device="cuda")
    copied = st.asarray(Exporter(own), copy=True)
    assert copied.tolist() == [1, 2]
    assert copied.data_ptr() != own.data_ptr()
    if device.simulated:  # memory that cannot be allocated through this interface

        class Pool(Array):
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, **options):
                capsule = own.__dlpack__(max_version=(1, 0))
                opened(capsule, b"dltensor_versioned").tensor.data = self.pointer
                return capsule

        with pytest.raises(ValueError, match="Pool cannot be shared without a copy: from a stream-ordered"):
            st.from_dlpack(Pool([1.0, 2.0], kind="pool"))
    target = st.zeros(2, device="cuda")
    assert target.copy_(Exporter(own)).tolist() == [1, 2]
    capsules = [own.__dlpack__(max_version=(1, 0))]

    class Again:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **options):
            return capsules[0]

    assert st.asarray(Again()).tolist() == [1, 2]
    with pytest.raises(TypeError, match="used before"):
        st.asarray(Again())
    before = st.stats()["blocks"]
    capsules.clear()
    del copied, target
    gc.collect()
    assert st.stats()["blocks"] <= before


@case
def test_dlpack_types_unknown_to_numpy_are_rejected() -> None:
    tensor = st.zeros(2, "f4", device="cuda")
    for code, bits, lanes, error in (
        (4, 16, 1, "no NumPy dtype"),
        (2, 8, 1, "no NumPy dtype"),
        (2, 32, 4, "vector"),
    ):
        capsule = tensor.__dlpack__(max_version=(1, 0))
        there = opened(capsule, b"dltensor_versioned")
        there.tensor.code, there.tensor.bits, there.tensor.lanes = code, bits, lanes

        class Other:
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, given=capsule, **options):
                return given

        with pytest.raises(BufferError, match=error):
            st.asarray(Other())
    capsule = tensor.__dlpack__(max_version=(1, 0))
    opened(capsule, b"dltensor_versioned").major = 2

    class Newer:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **options):
            return capsule

    with pytest.raises(BufferError, match="DLPack 2"):
        st.asarray(Newer())
