"""What the tensor transports have in common: an object's tensors stay in blocks, which its process lends.

Ray calls a transport in three processes. The one that makes an object describes its tensors in `Metadata`,
and holds their blocks until Ray's garbage collection. The owner of the reference passes the description on,
with the actor that made the object. A receiver borrows the blocks, or asks that actor for the values.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import ray
from ray._private import ray_constants
from ray.experimental import (
    CommunicatorMetadata,
    TensorTransportManager,
    TensorTransportMetadata,
    register_tensor_transport,
)
from ray.experimental.rdt.util import transport_manager_info

import shmtensor._core as _core
from shmtensor._fork import after_fork_in_child
from shmtensor.errors import OutOfSharedMemory, ShmTensorError
from shmtensor.integrations import _borrowing

if TYPE_CHECKING:
    from collections.abc import Callable

    Part = tuple[Callable[..., Any], tuple[Any, ...]]

_lent: dict[str, list[Part]] = {}
"""By the id of an object: functions that return its tensors, and their arguments, which hold the blocks."""

# A forked child would hold the blocks until it ends, since Ray does not call it.
after_fork_in_child(_lent.clear)


@dataclass
class Metadata(TensorTransportMetadata):  # type: ignore[misc]
    """The description of an object: the parts of `_lent` as handles."""

    transport: type[Transport] | None = None
    content: bytes = b""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_metadata, (self.transport, self.tensor_meta, self.content)


@dataclass
class Source(CommunicatorMetadata):  # type: ignore[misc]
    """The actor that made an object; None if Ray does not pass it on."""

    actor: Any = None


class Transport(TensorTransportManager):  # type: ignore[misc]
    """A transport for one class of tensors.

    Threads: an actor's own, and those of Ray's concurrency groups.
    """

    name: ClassVar[str]
    kind: ClassVar[type]

    @classmethod
    def register(cls) -> None:
        """Register the transport with Ray in this process."""
        with suppress(ValueError):  # it is registered
            register_tensor_transport(cls.name, ["cpu"], cls, cls.kind)

    @classmethod
    def unregister(cls) -> None:
        """Let no further method choose the transport. Ray keeps the instance, for objects that exist."""
        transport_manager_info.pop(cls.name, None)

    @abstractmethod
    def reduce(self, tensor: Any) -> Part:
        """Return a function that returns an equal tensor, and its arguments, which hold the memory."""

    def tensor_transport_backend(self) -> str:
        return self.name

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        return True  # else Ray kills both actors if one of them fails

    def actor_has_tensor_transport(self, actor: Any) -> bool:  # noqa: ARG002
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Any]) -> Metadata:
        """Lend the tensors of an object. Ray calls this again if it repeats the task's answer."""
        parts = _lent.get(obj_id) or [self._reduce(tensor) for tensor in rdt_object]
        content = _borrowing.dumps(parts)
        _lent[obj_id] = parts
        described = [(tensor.shape, tensor.dtype) for tensor in rdt_object]
        return Metadata(described, "cpu", type(self), content)

    def get_communicator_metadata(
        self,
        src_actor: Any,
        dst_actor: Any,  # noqa: ARG002
        backend: str | None = None,  # noqa: ARG002
    ) -> Source:
        return Source(src_actor)

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: Any,
        communicator_metadata: Any,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        """Return the tensors of an object, over its blocks or, where they cannot be mapped, by value."""
        try:
            tensors = _rebuild(_borrowing.loads(tensor_transport_metadata.content))
        except (ShmTensorError, OSError):
            tensors = _fetch(obj_id, communicator_metadata.actor)
        if not target_buffers:
            return tensors
        for buffer, tensor in zip(target_buffers, tensors, strict=True):
            buffer[...] = tensor
        return target_buffers

    def send_multiple_tensors(
        self, tensors: list[Any], tensor_transport_metadata: Any, communicator_metadata: Any
    ) -> None:
        raise NotImplementedError  # Ray does not call it, since a receiver needs nothing of the sender

    def garbage_collect(self, obj_id: str, tensor_transport_meta: Any, tensors: list[Any]) -> None:  # noqa: ARG002
        """Release the blocks of an object to which no reference is left."""
        _lent.pop(obj_id, None)

    def abort_transport(self, obj_id: str, communicator_metadata: Any) -> None:
        pass  # the receiver's call has failed, or fails by its own timeout

    def _reduce(self, tensor: Any) -> Part:
        try:
            return self.reduce(tensor)
        except OutOfSharedMemory:
            return pickle.loads, (pickle.dumps(tensor, 5),)


def by_value(tensor: Any) -> Part:
    """Reduce a tensor to a block with its pickle."""
    return pickle.loads, (_core.copy_of_buffer(pickle.dumps(tensor, 5)),)


def _restore_metadata(transport: type[Transport], tensor_meta: list[Any], content: bytes) -> Metadata:
    """Return the description of an object.

    Ray registers transports in actors that have them enabled, not in other workers, which may find a
    reference in an object.
    """
    transport.register()
    return Metadata(tensor_meta, "cpu", transport, content)


def _rebuild(parts: list[Part]) -> list[Any]:
    return [function(*arguments) for function, arguments in parts]


def _fetch(obj_id: str, actor: Any) -> list[Any]:
    """Return the tensors of an object of another node, session or user."""
    if actor is None:  # `ray.get`, for which Ray has no communicator
        known = ray._private.worker.global_worker.rdt_manager.get_rdt_metadata(obj_id)
        actor = known and known.src_actor
    if not isinstance(actor, ray.actor.ActorHandle):
        msg = (
            f"cannot receive object {obj_id}: this process cannot map the memory of the program that called "
            "ray.put with _tensor_transport, as on another node; call ray.put without it"
        )
        raise RuntimeError(msg)
    # Not the group "_ray_system", whose thread may be waiting for this process.
    call = actor.__ray_call__.options(concurrency_group="_ray_system_error").remote(_values, obj_id)
    tensors: list[Any] = ray.get(call, timeout=ray_constants.RDT_FETCH_FAIL_TIMEOUT_SECONDS)
    return tensors


def _values(_actor: Any, obj_id: str) -> list[Any]:
    """Return the tensors of an object that this actor lends."""
    return _rebuild(_lent[obj_id])
