"""shmtensor's tensors through its own queue in shared memory."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import BaseContext
from typing import Any

import shmtensor as st
from bench.peers.shmtensor import Shmtensor

__all__ = ["PEER"]


class Context:
    """The start method `spawn`, with shmtensor's queues."""

    def __init__(self) -> None:
        self.Process = multiprocessing.get_context("spawn").Process
        self.SimpleQueue = st.Queue


class ShmtensorQueue(Shmtensor):
    """Tensors in an arena; tickets in the queue."""

    def context(self) -> BaseContext:
        context: Any = Context()
        return context


PEER = ShmtensorQueue("shmtensor-queue", "file_descriptor")
