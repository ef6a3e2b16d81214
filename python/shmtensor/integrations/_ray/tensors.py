"""`st.Tensor` in Ray: a transport that shares its memory, and a serializer for all other ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray.cloudpickle
from ray.util.serialization import deregister_serializer, register_serializer

from shmtensor.integrations._ray.transport import Transport, by_value
from shmtensor.tensor import Tensor, _restore_tensor

if TYPE_CHECKING:
    from shmtensor.integrations._ray.transport import Part


class TensorTransport(Transport):
    """Each receiver has the same memory, writable or read-only as the tensor that was sent."""

    name = "SHMTENSOR_ARRAY"
    kind = Tensor

    def reduce(self, tensor: Tensor) -> Part:
        if tensor.device != "cpu":
            return by_value(tensor)
        if not tensor.is_shared():
            copy = tensor.clone()
            tensor = copy.as_readonly() if tensor.readonly else copy
        return _itself, (tensor,)


def _itself(tensor: Tensor) -> Tensor:
    return tensor


_reducers: dict[type, Any] = ray.cloudpickle.CloudPickler.dispatch
_installed: Any = None


def install_serializer() -> None:
    """Let tensors in other objects keep their class and writability.

    Ray replaces it by one of its own, which does so, too, when a process first uses the transport.
    """
    global _installed
    if Tensor not in _reducers:
        register_serializer(Tensor, serializer=_to_parts, deserializer=_from_parts)
        _installed = _reducers[Tensor]


def uninstall_serializer() -> None:
    """Let Ray pickle tensors, unless it has a serializer of its own, which the transport needs."""
    if _installed is not None and _reducers.get(Tensor) is _installed:
        deregister_serializer(Tensor)


def _to_parts(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.__reduce_ex__(5)[1]


def _from_parts(parts: tuple[Any, ...]) -> Tensor:
    content, dtype, shape, readonly, *device = parts
    # Ray's memory is read-only.
    return _restore_tensor(content if readonly else bytearray(content), dtype, shape, readonly, *device)
