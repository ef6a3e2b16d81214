"""The half of Tensor that other libraries see: the array protocols, arithmetic, conversions."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

import shmtensor._core as _core
from shmtensor._host import as_array

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Protocols"]


class Protocols(_core.TensorBase, NDArrayOperatorsMixin):
    """NumPy's protocols, DLPack, Python's numbers. Arithmetic is NumPy's and gives NumPy arrays."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == compares the elements, as in NumPy

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Address, shape, strides and dtype; valid while this tensor lives. Shares the memory.

        Not there for dtypes that the protocol cannot spell, such as those of ml_dtypes.
        """
        if _core.device_number(self.storage()) >= 0:
            msg = "a tensor on a GPU has no __array_interface__"
            raise AttributeError(msg)
        interface: dict[str, Any] = self.numpy().__array_interface__
        if _spelled_dtype(interface) != self.dtype:
            msg = f"dtype {self.dtype} has no spelling in __array_interface__"
            raise AttributeError(msg)
        return interface

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Address on the GPU, shape, strides, dtype (version 3); not there on the host. Shares the memory.

        Nothing of ours is under way on the memory, but what another process sent with an event is waited
        for on the default stream (1).
        """
        if _core.device_number(self.storage()) < 0:
            msg = "a tensor in host memory has no __cuda_array_interface__"
            raise AttributeError(msg)
        plain = self.dtype.names is None
        interface: dict[str, Any] = {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data_ptr() if self.size else 0, self.readonly),
            "strides": None if self.is_contiguous() else self.strides,
            "stream": 1,
        }
        if not plain:
            interface["descr"] = self.dtype.descr
        return interface

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return a NumPy array over the same memory; a copy only for another dtype or on demand."""
        array: npt.NDArray[Any] = self.numpy()
        if copy or (dtype is not None and np.dtype(dtype) != array.dtype):
            if copy is False:
                msg = f"a conversion from {array.dtype} to {np.dtype(dtype)} needs a copy"
                raise ValueError(msg)
            return array.astype(array.dtype if dtype is None else dtype)
        return array

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        """Export through DLPack, versioned if the consumer asks for that. Shares the memory.

        Raises
        ------
        BufferError
            For a dtype that DLPack does not have, another device, or a read-only tensor and a consumer
            that asks for the unversioned form.
        """
        number = _core.device_number(self.storage())
        if number >= 0:
            return _device_dlpack(self, number, stream, **options)
        device = options.get("dl_device")
        if device is not None and tuple(device) != self.__dlpack_device__():
            msg = f"the tensor lies on the host, and was asked for on DLPack's device {device}"
            raise BufferError(msg)
        return self.numpy().__dlpack__(**(options if stream is None else {"stream": stream, **options}))

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (type, number) of the device."""
        number = _core.device_number(self.storage())
        return (1, 0) if number < 0 else (2, number)  # kDLCPU, kDLCUDA

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Let NumPy compute; `out`, `where` and the like may be tensors.

        A tensor in `out` is returned, but by a reduction, which returns its array: `numpy.mean` and its kin
        finish the work in what they get back from it, if it is one of NumPy's.
        """
        if method == "at" and getattr(inputs[0], "readonly", False):
            msg = "output array is read-only"  # NumPy writes without asking, and here that is a SIGSEGV
            raise ValueError(msg)
        out = options.pop("out", None)
        arrays = {name: as_array(value) for name, value in options.items()}
        if out is not None:
            arrays["out"] = tuple(as_array(item) for item in out)
        result = getattr(ufunc, method)(*(as_array(item) for item in inputs), **arrays)
        if out is None or method == "reduce":
            return result
        if len(out) == 1:
            return out[0]
        return tuple(made if given is None else given for made, given in zip(result, out, strict=True))

    # Not through the ufuncs, which know neither structured dtypes nor strings beside numbers.

    def __eq__(self, other: object) -> Any:
        return self.numpy() == as_array(other)

    def __ne__(self, other: object) -> Any:
        return self.numpy() != as_array(other)

    def __format__(self, spec: str) -> str:
        """Format the element of a tensor of no dimension, as a number is."""
        if spec and self.ndim == 0:
            return format(self.item(), spec)
        return super().__format__(spec)

    def __bool__(self) -> bool:
        return bool(_on_host(self))

    def __int__(self) -> int:
        return int(_on_host(self))

    def __float__(self) -> float:
        return float(_on_host(self))

    def __complex__(self) -> complex:
        return complex(_on_host(self))

    def __index__(self) -> int:
        return operator.index(_on_host(self))

    def __contains__(self, value: object) -> bool:
        return value in self.numpy()

    def tolist(self) -> Any:
        """Return the elements as nested Python lists, or one Python number for no dimension."""
        return _on_host(self).tolist()

    def item(self, *index: int) -> Any:
        """Return one element as a Python number: the only one, or the one at `index`."""
        return _on_host(self).item(*index)


def _on_host(tensor: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = tensor.cpu().numpy()
    return array


_DLPACK_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


def _device_dlpack(
    tensor: Any,
    number: int,
    stream: int | None,
    *,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    if dl_device is not None and tuple(dl_device) == (1, 0):
        if copy is False:
            msg = "an export to the host needs a copy"
            raise ValueError(msg)
        return tensor.cpu().__dlpack__(max_version=max_version)
    if dl_device is not None and tuple(dl_device) != (2, number):
        msg = f"the tensor lies on device {(2, number)} and cannot be exported to {tuple(dl_device)}"
        raise BufferError(msg)
    if stream == 0 or (stream is not None and stream < -1):
        msg = f"stream {stream} is not allowed; 1 is the default stream, -1 means not to wait"
        raise ValueError(msg)
    code = _DLPACK_CODES.get(tensor.dtype.kind)
    if code is None and tensor.dtype.name == "bfloat16":
        code = 4
    if code is None or not tensor.dtype.isnative:
        msg = f"DLPack has no dtype {tensor.dtype}"
        raise BufferError(msg)
    given = tensor.clone() if copy else tensor
    versioned = max_version is not None and max_version[0] >= 1
    capsule = _core.cuda_to_dlpack(given, code, versioned)
    if stream not in {None, 1, -1}:
        _core.cuda_order_streams(number, 1, stream)
    return capsule


def _spelled_dtype(interface: dict[str, Any]) -> np.dtype[Any] | None:
    plain = [field[0] for field in interface["descr"]] == [""]
    try:
        spelled: np.dtype[Any] = np.dtype(interface["typestr" if plain else "descr"])
    except (TypeError, ValueError):
        return None
    return spelled
