"""DLPack's table of C functions, called as another extension calls them."""

from __future__ import annotations

import ctypes
import gc
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p as void

import ml_dtypes
import numpy as np
import pytest

import shmtensor as st
from tests.helpers.dtypes import NUMBERS, name_of
from tests.helpers.live_resources import assert_no_leaks

pytestmark = pytest.mark.usefixtures("strategy")


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", void),
        ("device", c_int32 * 2),
        ("dims", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class Managed(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = (
    ("version", c_uint32 * 2),
    ("context", void),
    ("deleter", DELETER),
    ("flags", c_uint64),
    ("tensor", DLTensor),
)
SET_ERROR = ctypes.CFUNCTYPE(None, void, c_char_p, c_char_p)


class Api(ctypes.Structure):
    # The functions that are called with the GIL raise the exception that they set.
    _fields_ = (
        ("version", c_uint32 * 2),
        ("previous", void),
        ("allocate", ctypes.CFUNCTYPE(c_int, POINTER(DLTensor), POINTER(POINTER(Managed)), void, SET_ERROR)),
        ("from_object", ctypes.PYFUNCTYPE(c_int, ctypes.py_object, POINTER(POINTER(Managed)))),
        ("to_object", ctypes.PYFUNCTYPE(c_int, POINTER(Managed), POINTER(ctypes.py_object))),
        ("borrow", ctypes.PYFUNCTYPE(c_int, ctypes.py_object, POINTER(DLTensor))),
        ("current_stream", ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(void))),
    )


def api() -> Api:
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = void, (ctypes.py_object, c_char_p)
    return Api.from_address(get_pointer(st.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


def exported(tensor: st.Tensor) -> POINTER(Managed):
    managed = POINTER(Managed)()
    assert api().from_object(tensor, byref(managed)) == 0
    return managed


def borrowed(tensor: st.Tensor) -> DLTensor:
    described = DLTensor()
    assert api().borrow(tensor, byref(described)) == 0
    return described


def array_of(tensor: DLTensor) -> np.ndarray:
    """Return an array over the memory that a structure describes."""
    shape = tensor.shape[: tensor.dims]
    kind = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}[tensor.code]
    dtype = np.dtype(bool if kind == "b" else f"{kind}{tensor.bits // 8}")
    strides = [step * dtype.itemsize for step in tensor.strides[: tensor.dims]]
    memory = (ctypes.c_char * dtype.itemsize).from_address(tensor.data)
    first = np.frombuffer(memory, dtype)
    return np.lib.stride_tricks.as_strided(first, shape, strides)


def test_table_is_of_version_1_3() -> None:
    assert list(api().version) == [1, 3]
    assert api().previous is None
    assert st.ones(1).__dlpack_c_exchange_api__ is st.Tensor.__dlpack_c_exchange_api__


DTYPES = [d for d in NUMBERS if d != np.dtype(np.clongdouble)]


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
def test_exported_tensors_are_the_same_memory(dtype) -> None:
    tensor = st.asarray(np.arange(24).reshape(2, 3, 4).astype(dtype))
    for view in (tensor, tensor[1, ::-1, ::2], tensor.T, tensor[0, 0, 0]):
        managed = exported(view)
        for described in (managed.contents.tensor, borrowed(view)):
            assert (described.bits, described.lanes, described.byte_offset) == (8 * dtype.itemsize, 1, 0)
            assert list(described.device) == [1, 0]
            assert described.data == view.data_ptr()
            array = array_of(described)
            assert array.dtype == dtype
            assert array.tolist() == view.tolist()
        assert managed.contents.flags == 0
        managed.contents.deleter(managed)


def test_exported_structure_keeps_the_memory_until_its_deleter_is_called() -> None:
    with assert_no_leaks():
        tensor = st.full((1000,), 5.0)
        before = st.stats()["blocks"]
        managed = exported(tensor)
        del tensor
        gc.collect()
        assert st.stats()["blocks"] == before
        assert array_of(managed.contents.tensor).sum() == 5000
        managed.contents.deleter(managed)
        assert st.stats()["blocks"] == before - 1


def test_tensors_of_bfloat16_and_of_no_element() -> None:
    described = borrowed(st.zeros(3, ml_dtypes.bfloat16))
    assert (described.code, described.bits) == (4, 16)
    assert borrowed(st.zeros((0, 3))).data is None


@pytest.mark.parametrize("dtype", ["M8[s]", "S3", ">f4", [("a", "i4")], np.clongdouble], ids=str)
def test_dtype_that_dlpack_lacks_is_an_error(dtype) -> None:
    with pytest.raises(BufferError, match="DLPack has no dtype"):
        exported(st.zeros(3, dtype))
    with pytest.raises(BufferError, match="DLPack has no dtype"):
        borrowed(st.zeros(3, dtype))


def test_strides_that_dlpack_cannot_describe_are_an_error() -> None:
    view = st.zeros(5, [("a", "i2"), ("b", "i4")])["b"]
    for export in (exported, borrowed):
        with pytest.raises(BufferError, match="strides"):
            export(view)


def test_read_only_tensor_is_exported_only_where_there_is_a_flag() -> None:
    tensor = st.ones(3).as_readonly()
    managed = exported(tensor)
    assert managed.contents.flags == 1
    managed.contents.deleter(managed)
    with pytest.raises(BufferError, match="read-only"):
        borrowed(tensor)


def test_other_object_is_an_error() -> None:
    with pytest.raises(TypeError, match="not a tensor"):
        exported(np.ones(3))
    with pytest.raises(TypeError, match="not a tensor"):
        borrowed([])


def allocated(shape: tuple[int, ...], code: int, bits: int, device=(1, 0), lanes: int = 1):
    """Return the new structure, or the error that was reported."""
    sizes = (c_int64 * len(shape))(*shape)
    prototype = DLTensor(
        device=(c_int32 * 2)(*device), dims=len(shape), code=code, bits=bits, lanes=lanes, shape=sizes
    )
    managed, errors = POINTER(Managed)(), []
    report = SET_ERROR(lambda _, kind, message: errors.append((kind.decode(), message.decode())))
    status = api().allocate(byref(prototype), byref(managed), None, report)
    assert status == (-1 if errors else 0)
    return errors[0] if errors else managed


def to_object(managed) -> object:
    result = ctypes.py_object()
    assert api().to_object(managed, byref(result)) == 0
    value = result.value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(value))  # ours; `value` has its own
    return value


def test_allocated_tensor_is_in_shared_memory() -> None:
    with assert_no_leaks():
        managed = allocated((2, 3), 2, 32)
        array_of(managed.contents.tensor)[...] = 7
        tensor = to_object(managed)
        assert type(tensor) is st.Tensor
        assert tensor.is_shared()
        assert tensor.dtype == np.float32
        assert tensor.tolist() == [[7] * 3] * 2
        managed = allocated((5,), 0, 8)
        managed.contents.deleter(managed)
        del tensor


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (((1,), 2, 24), "BufferError"),
        (((1,), 2, 32, (4, 0)), "BufferError"),
        (((1,), 2, 32, (1, 0), 4), "BufferError"),
        (((1 << 50,), 2, 32), "OutOfSharedMemory"),
    ],
)
def test_failed_allocation_is_reported_by_the_callers_function(request_, kind) -> None:
    reported, message = allocated(*request_)
    assert reported == kind
    assert message


def test_structure_of_another_library_becomes_a_tensor() -> None:
    array = np.arange(6.0).reshape(2, 3)
    freed = []
    shape, strides = (c_int64 * 2)(2, 3), (c_int64 * 2)(3, 1)
    managed = Managed(
        version=(c_uint32 * 2)(1, 0),
        deleter=DELETER(lambda _: freed.append(True)),
        tensor=DLTensor(
            data=array.ctypes.data,
            device=(c_int32 * 2)(1, 0),
            dims=2,
            code=2,
            bits=64,
            lanes=1,
            shape=shape,
            strides=strides,
        ),
    )
    tensor = to_object(ctypes.pointer(managed))
    assert tensor.data_ptr() == array.ctypes.data
    assert tensor.tolist() == array.tolist()
    assert not freed
    del tensor
    gc.collect()
    assert freed == [True]


def test_stream_is_the_default_one() -> None:
    stream = void(1)
    for device in ((1, 0), (2, 0)):
        assert api().current_stream(*device, byref(stream)) == 0
        assert stream.value is None
