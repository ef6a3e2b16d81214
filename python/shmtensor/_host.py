"""The back end for tensors in host memory; `_backend` documents the functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import shmtensor._core as _core
from shmtensor._cuda.copy import to_host as _copy_to_host
from shmtensor._cuda.foreign_arrays import cuda_array, imported
from shmtensor._dlpack import BFLOAT16, HOST, code_of, is_versioned
from shmtensor._layout import byte_bounds, bytes_at, is_view, needs_copy


def as_array(value: Any) -> Any:
    """Return the NumPy array of a tensor; anything else unchanged."""
    return value.numpy() if isinstance(value, _core.TensorBase) else value


def array_of(obj: Any) -> np.ndarray[Any, Any]:
    """Return `numpy.asarray(obj)`; by DLPack for what does not convert itself, as bfloat16 of torch."""
    try:
        array: np.ndarray[Any, Any] = np.asarray(obj)
    except TypeError:
        if not hasattr(obj, "__dlpack__"):
            raise
        array = from_dlpack(obj)
    return array


def from_dlpack(obj: Any) -> np.ndarray[Any, Any]:
    """Return `numpy.from_dlpack(obj)`, also for bfloat16 and, before NumPy 2.1, for versioned capsules."""
    try:
        array: np.ndarray[Any, Any] = np.from_dlpack(obj)
    except (BufferError, RuntimeError, ValueError):
        if int(obj.__dlpack_device__()[0]) != HOST:
            raise
        owner, address, readonly, shape, strides, dtype = imported(obj)
        low, high = byte_bounds(address, shape, strides, dtype.itemsize)
        array = np.ndarray(
            shape, dtype, bytes_at(owner, low, high - low, readonly).data, address - low, strides
        )
    return array


def to_host(tensor: Any) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = tensor.numpy()
    return array


def clone(tensor: Any) -> Any:
    return _shared_copy(tensor.numpy())


def copy_from(tensor: Any, source: Any) -> None:
    if isinstance(source, _core.TensorBase):
        on_gpu = _core.device_number(source.storage()) >= 0
        source = _copy_to_host(source) if on_gpu else source.numpy()
    elif (foreign := cuda_array(source)) is not None:
        raise TypeError(f"copy {foreign.name} to the host first, or use st.asarray")
    np.copyto(tensor.numpy(), source, casting="unsafe")


def fill(tensor: Any, value: Any) -> None:
    tensor.numpy()[...] = as_array(value)


def assign(tensor: Any, key: Any, value: Any) -> None:
    tensor.numpy()[key] = as_array(value)


def gather(layout: np.ndarray[Any, Any], key: Any) -> Any:
    return layout[key]


def reshape(tensor: Any, shape: tuple[Any, ...], *, copy: bool) -> Any:
    array = tensor.numpy()
    result = array.reshape(*shape)
    if is_view(result, array) or array.size == 0:
        return tensor._over(result, array)
    if not copy:
        raise needs_copy(shape, array.strides)
    return _shared_copy(result)


def array_interface(tensor: Any) -> dict[str, Any]:
    interface: dict[str, Any] = tensor.numpy().__array_interface__
    if _described_dtype(interface) != tensor.dtype:
        msg = f"dtype {tensor.dtype} cannot be described by __array_interface__"
        raise AttributeError(msg)
    tensor._keep_memory()  # the consumer refers to the tensor alone
    return interface


def cuda_array_interface(tensor: Any) -> dict[str, Any]:
    msg = "a tensor in host memory has no __cuda_array_interface__"
    raise AttributeError(msg)


def dlpack(tensor: Any, stream: int | None, **options: Any) -> Any:
    device = options.get("dl_device")
    if device is not None and tuple(device) != dlpack_device(tensor):
        msg = f"tensor is on the CPU; cannot export it to DLPack device {device}"
        raise BufferError(msg)
    if code_of(tensor.dtype) == BFLOAT16:  # which NumPy does not export
        source = clone(tensor) if options.get("copy") else tensor
        return _core.to_dlpack(source, BFLOAT16, is_versioned(options.get("max_version")))
    return tensor.numpy().__dlpack__(**(options if stream is None else {"stream": stream, **options}))


def dlpack_device(tensor: Any) -> tuple[int, int]:
    return HOST, 0


def _shared_copy(array: np.ndarray[Any, Any]) -> Any:
    result = _core.empty(array.shape, array.dtype, False)
    np.copyto(result.numpy(), array)
    return result


def _described_dtype(interface: dict[str, Any]) -> np.dtype[Any] | None:
    plain = [field[0] for field in interface["descr"]] == [""]
    try:
        described: np.dtype[Any] = np.dtype(interface["typestr" if plain else "descr"])
    except (TypeError, ValueError):
        return None
    return described
