"""vLLM's MessageQueue over a broadcast: the same constructor and methods, for ranks of one host.

It follows `vllm.distributed.device_communicators.shm_broadcast` of vLLM 0.33. A killed reader blocks no other
process, a message has no largest size, and large tensors are copied once for all ranks, not into a ring and
out of it by each. So ranks share the tensors they receive, and cannot write into NumPy arrays.
"""

from __future__ import annotations

import queue
import uuid
import weakref
from dataclasses import dataclass, field
from typing import Any

import shmtensor as st

__all__ = ["Handle", "MessageQueue"]

READY = "READY"


@dataclass
class Handle:
    """What a reader needs: plain data, for any pickler and any process of the session."""

    local_reader_ranks: list[int] = field(default_factory=list)
    name: str = ""


class MessageQueue:
    """Messages from the process that makes it to ranks of the same host, which open its handle.

    `max_chunks` is the number of messages that the slowest reader may be behind. The arguments
    `max_chunk_bytes`, `connect_ip` and `enable_shm_tensor_arena` have no effect.
    """

    def __init__(
        self,
        n_reader: int,
        n_local_reader: int,
        local_reader_ranks: list[int] | None = None,
        max_chunk_bytes: int = 1024 * 1024 * 24,
        max_chunks: int = 10,
        connect_ip: str | None = None,
        enable_shm_tensor_arena: bool = False,
    ) -> None:
        if n_reader != n_local_reader:
            raise ValueError(f"{n_reader - n_local_reader} readers are on other hosts: use vLLM's own class")
        # torch's own reducer sends a descriptor, which only one of the readers could receive.
        st.install("torch")
        ranks = list(range(n_local_reader)) if local_reader_ranks is None else local_reader_ranks
        assert len(ranks) == n_local_reader
        self.n_local_reader, self.n_remote_reader, self.shutting_down = n_local_reader, 0, False
        self._broadcast: st.Broadcast[Any] = st.Broadcast(max_chunks)
        self._reader: st.BroadcastReader[Any] | None = None
        self.handle = Handle(ranks, f"message-queue/{uuid.uuid4().hex}")
        st.publish(self.handle.name, self._broadcast)
        self._unpublish = weakref.finalize(self, st.unpublish, self.handle.name)

    def export_handle(self) -> Handle:
        return self.handle

    @staticmethod
    def create_from_handle(handle: Handle, rank: int) -> MessageQueue:
        """Join as a reader: it gets every message that is put from now on."""
        if rank not in handle.local_reader_ranks:
            raise ValueError(f"rank {rank} is not a local reader: {handle.local_reader_ranks}")
        self = MessageQueue.__new__(MessageQueue)
        self.handle, self.shutting_down = handle, False
        self._broadcast = st.attach(handle.name)
        self._reader = self._broadcast.reader()
        return self

    def wait_until_ready(self) -> None:
        """Wait until the writer and all readers have called this; the name is not needed after that."""
        if self._reader is not None:
            first = self.dequeue()
            assert first == READY, first
        elif self.n_local_reader > 0:
            self._broadcast.wait_for_readers(self.n_local_reader)
            self._broadcast.put(READY)
            self._unpublish()

    def shutdown(self) -> None:
        """Cancel the calls of other threads, and all later ones; other processes are not affected."""
        self.shutting_down = True
        (self._broadcast if self._reader is None else self._reader).close()

    def enqueue(self, obj: Any, timeout: float | None = None) -> None:
        """Put an object for all readers; TimeoutError if there is no room in so many seconds."""
        assert self._reader is None, "Only writers can enqueue"
        try:
            self._broadcast.put(obj, timeout=timeout)
        except queue.Full:
            raise TimeoutError from None
        except ValueError:
            self._raise_if_cancelled()
            raise

    def dequeue(self, timeout: float | None = None, indefinite: bool = False) -> Any:
        """Return the next object; TimeoutError if there is none in so many seconds."""
        assert self._reader is not None, "Only readers can dequeue"
        try:
            return self._reader.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        except ValueError:
            self._raise_if_cancelled()
            raise

    def _raise_if_cancelled(self) -> None:
        if self.shutting_down:
            raise RuntimeError("cancelled") from None

    def broadcast_object(self, obj: Any = None) -> Any:
        if self._reader is not None:
            return self.dequeue()
        self.enqueue(obj)
        return obj

    @staticmethod
    def create_from_process_group(
        pg: Any,
        max_chunk_bytes: int,
        max_chunks: int,
        writer_rank: int = 0,
        external_writer_handle: Handle | None = None,
        blocking: bool = True,
    ) -> MessageQueue:
        """Make a queue from one rank of a group of torch.distributed to its other ranks."""
        import torch.distributed as dist

        rank, count = dist.get_rank(pg), dist.get_world_size(pg)
        made, handle = None, external_writer_handle
        if rank == writer_rank and handle is None:
            readers = [reader for reader in range(count) if reader != writer_rank]
            made = MessageQueue(count - 1, count - 1, readers, max_chunk_bytes, max_chunks)
            handle = made.handle
        sent = [handle]
        dist.broadcast_object_list(sent, src=dist.get_process_group_ranks(pg)[writer_rank], group=pg)
        found = made or MessageQueue.create_from_handle(sent[0], rank)
        if blocking:
            found.wait_until_ready()
        return found
