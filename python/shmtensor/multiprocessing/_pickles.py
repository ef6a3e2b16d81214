"""Pickles that travel outside of queues: the arguments of a child, its report, bytes of a pipe."""

from __future__ import annotations

import io
import pickle
from contextlib import suppress
from multiprocessing import context, reduction
from typing import Any

import shmtensor._core as _core
from shmtensor._pickling import load_with_buffers
from shmtensor.errors import StaleHandleError


def loads_or_release(content: bytes) -> Any:
    """Unpickle a message that can be read only once.

    If that fails, the tensors that were not unpickled yet are released: their tickets would otherwise keep
    their memory allocated.
    """
    try:
        return pickle.loads(content)
    except BaseException:
        _release(content)
        raise


def _release(content: bytes) -> None:
    # Stops at the first error: the pickle is damaged, memory is short, or the manager does not answer, which
    # would cost a timeout for each handle.
    with suppress(Exception):
        import pickletools

        has_buffers = False
        for _, argument, _ in pickletools.genops(content):
            if argument == load_with_buffers.__name__:
                has_buffers = True
            elif isinstance(argument, bytes) and has_buffers:
                _release(argument)  # the stream, which comes first
                has_buffers = False
            elif isinstance(argument, bytes):
                with suppress(StaleHandleError):  # not a handle, or its tensor does not exist any more
                    _core.cancel_handle(argument)


def dumps_for_child(popen: Any, *objects: Any) -> memoryview:
    """Pickle objects one after another for the child that `popen` starts."""
    buffer = io.BytesIO()
    context.set_spawning_popen(popen)
    try:
        for obj in objects:
            reduction.dump(obj, buffer)
    finally:
        context.set_spawning_popen(None)
    return buffer.getbuffer()
