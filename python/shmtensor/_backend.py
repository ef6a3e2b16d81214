"""The choice between two back ends with the same functions: the host's and CUDA's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import shmtensor._core as _core
from shmtensor import _host
from shmtensor._cuda import device as _device

if TYPE_CHECKING:
    from typing import Any, Protocol

    import numpy.typing as npt

    from shmtensor._core import StorageBase

    class Backend(Protocol):
        """The functions of a back end. A tensor that they take is on the back end's device."""

        def to_host(self, tensor: Any) -> npt.NDArray[Any]:
            """Return the elements as an array: over the same memory on the host, else a private copy."""

        def clone(self, tensor: Any) -> Any:
            """Return a copy in shared memory on the same device, in C order."""

        def copy_from(self, tensor: Any, source: Any) -> None:
            """Copy the elements of anything, broadcast and converted, into the tensor."""

        def fill(self, tensor: Any, value: Any) -> None:
            """Set every element to a value."""

        def assign(self, tensor: Any, key: Any, value: Any) -> None:
            """Assign to the elements that a key of NumPy selects."""

        def gather(self, layout: npt.NDArray[Any], key: Any) -> Any:
            """Return a copy of the elements that index arrays select from a tensor of this layout."""

        def reshape(self, tensor: Any, shape: tuple[Any, ...], *, copy: bool) -> Any:
            """Return a view in another shape, or a copy if there is none; without `copy` raise then."""

        def array_interface(self, tensor: Any) -> dict[str, Any]:
            """Return the value of `__array_interface__`."""

        def cuda_array_interface(self, tensor: Any) -> dict[str, Any]:
            """Return the value of `__cuda_array_interface__`."""

        def dlpack(self, tensor: Any, stream: int | None, **options: Any) -> Any:
            """Return a capsule of DLPack."""

        def dlpack_device(self, tensor: Any) -> tuple[int, int]:
            """Return DLPack's type and number of the device."""


def backend_of(storage: StorageBase) -> Backend:
    """Return the back end for the device of a storage."""
    return _device if _core.device_number(storage) >= 0 else _host
