"""The back end for tensors on a GPU; `_backend` documents the functions."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor._cuda.copy import from_host, on_device, to_host
from shmtensor._cuda.foreign_arrays import CudaArray, cuda_array
from shmtensor._dlpack import CUDA, DEFAULT_STREAM, HOST, code_of, is_versioned
from shmtensor._layout import needs_copy, strides_for

if TYPE_CHECKING:
    import numpy as np

__all__ = ["to_host"]


def clone(tensor: Any) -> Any:
    result = _core.empty(tensor.shape, tensor.dtype, False, _core.device_number(tensor.storage()))
    on_device(result, tensor)
    return result


def copy_from(tensor: Any, source: Any) -> None:
    if isinstance(source, _core.TensorBase):
        same = source.dtype == tensor.dtype and source.shape == tensor.shape
        if same and _core.device_number(source.storage()) >= 0:
            on_device(tensor, source)
        else:
            from_host(tensor, _host_array(source))
        return
    foreign = source if isinstance(source, CudaArray) else cuda_array(source)
    if foreign is None:
        from_host(tensor, source)
    else:
        _copy_from_foreign(tensor, foreign)


def _copy_from_foreign(tensor: Any, foreign: CudaArray) -> None:
    if foreign.dtype != tensor.dtype or foreign.shape != tensor.shape:
        msg = (
            f"a copy on the GPU needs {tensor.dtype} of shape {tensor.shape}, "
            f"not {foreign.dtype} of shape {foreign.shape}"
        )
        raise ValueError(msg)
    if foreign.size:
        foreign.wait(foreign.device)
        low, high = foreign.byte_bounds()
        storage = _core.cuda_borrow(low, high - low, foreign.device)
        offset = foreign.pointer - low
        on_device(tensor, _core.TensorBase(storage, foreign.dtype, foreign.shape, foreign.strides, offset))


def fill(tensor: Any, value: Any) -> None:
    from_host(tensor, _host_array(value))


def assign(tensor: Any, key: Any, value: Any) -> None:
    copy_from(tensor[key], value)


def gather(layout: np.ndarray[Any, Any], key: Any) -> Any:
    msg = "index arrays and masks need the elements: use cupy() or cpu()"
    raise TypeError(msg)


def reshape(tensor: Any, shape: tuple[Any, ...], *, copy: bool) -> Any:
    sizes = _sizes(tensor, shape)
    strides = None
    if tensor.size:
        strides = strides_for(tensor.shape, tensor.strides, tuple(sizes), tensor.itemsize)
        if strides is None and not copy:
            raise needs_copy(shape, tensor.strides)
        if strides is None:
            return reshape(clone(tensor), shape, copy=False)
    return type(tensor)(
        tensor.storage(), tensor.dtype, sizes, strides, tensor.storage_offset(), tensor.readonly
    )


def _sizes(tensor: Any, shape: tuple[Any, ...]) -> list[int]:
    """Return the sizes of a new shape, of which one may be given as -1."""
    given = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
    sizes = [operator.index(size) for size in given]
    wanted = tuple(sizes)
    if sizes.count(-1) == 1 and min(sizes) >= -1:
        others = math.prod(size for size in sizes if size != -1)
        if others and tensor.size % others == 0:
            sizes[sizes.index(-1)] = tensor.size // others
    if min(sizes, default=0) < 0 or math.prod(sizes) != tensor.size:
        msg = f"cannot reshape array of size {tensor.size} into shape {wanted}"
        raise ValueError(msg)
    return sizes


def array_interface(tensor: Any) -> dict[str, Any]:
    msg = "a tensor on a GPU has no __array_interface__"
    raise AttributeError(msg)


def cuda_array_interface(tensor: Any) -> dict[str, Any]:
    interface: dict[str, Any] = {
        "version": 3,
        "shape": tensor.shape,
        "typestr": tensor.dtype.str,
        "data": (tensor.data_ptr() if tensor.size else 0, tensor.readonly),
        "strides": None if tensor.is_contiguous() else tensor.strides,
        "stream": DEFAULT_STREAM,
    }
    if tensor.dtype.names is not None:
        interface["descr"] = tensor.dtype.descr
    tensor._keep_memory()  # the consumer refers to the tensor alone
    return interface


def dlpack(
    tensor: Any,
    stream: int | None,
    *,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    here = dlpack_device(tensor)
    if dl_device is not None and tuple(dl_device) == (HOST, 0):
        if copy is False:
            msg = "an export to the host needs a copy"
            raise ValueError(msg)
        return tensor.cpu().__dlpack__(max_version=max_version)
    if dl_device is not None and tuple(dl_device) != here:
        msg = f"the tensor is on device {here} and cannot be exported to {tuple(dl_device)}"
        raise BufferError(msg)
    if stream == 0 or (stream is not None and stream < -1):
        msg = f"stream {stream} is not allowed; 1 is the default stream, -1 means not to wait"
        raise ValueError(msg)
    code = code_of(tensor.dtype)
    if code is None:
        msg = f"DLPack has no dtype {tensor.dtype}"
        raise BufferError(msg)
    capsule = _core.to_dlpack(clone(tensor) if copy else tensor, code, is_versioned(max_version))
    if stream not in {None, DEFAULT_STREAM, -1}:
        _core.cuda_order_streams(here[1], DEFAULT_STREAM, stream)
    return capsule


def dlpack_device(tensor: Any) -> tuple[int, int]:
    return CUDA, _core.device_number(tensor.storage())


def _host_array(value: Any) -> Any:
    if not isinstance(value, _core.TensorBase):
        return value
    return to_host(value) if _core.device_number(value.storage()) >= 0 else value.numpy()
