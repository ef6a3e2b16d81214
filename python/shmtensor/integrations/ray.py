"""Ray: tensors of actors travel as handles, by transports that methods name.

Ray stores bytes, and has no callback for the end of a stored object; so only its tensor transports can send
handles (`_ray.transport`). A receiver tries to map the blocks; where it cannot, as on another node, it asks
the actor that made the object for the values. Ray replaces the serializer of a class when a process first
uses a transport for that class, and never again, so `uninstall` leaves that one. docs/guide/with-ray.md
describes the behaviour.
"""

from __future__ import annotations

import ray

import shmtensor._core as _core
from shmtensor.integrations._ray.tensors import TensorTransport, install_serializer, uninstall_serializer

__all__ = ["install", "uninstall"]


def install() -> None:
    """Register the transport and the serializer of `st.Tensor`; torch's transport is a part of its own."""
    TensorTransport.register()
    install_serializer()
    if not ray.is_initialized():
        _core.home_id()  # so that processes which Ray starts from here are in this session


def uninstall() -> None:
    """Let no further method choose the transport, and Ray pickle tensors."""
    TensorTransport.unregister()
    uninstall_serializer()
