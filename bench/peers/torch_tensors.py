"""torch.multiprocessing: by its default strategy ("-fd"), or with named shared memory ("-fs")."""

from __future__ import annotations

import resource
from multiprocessing.context import BaseContext
from typing import Any

import torch
import torch.multiprocessing as mp

from bench.peers import Array, Peer


class Torch(Peer):
    """Tensors in a segment each; the reader of a message requests the descriptor or opens the name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        mp.set_sharing_strategy("file_system" if name == "torch-fs" else "file_descriptor")
        torch.set_num_threads(1)
        # One descriptor per tensor: with the usual limit of 1,024 a list of 1,000 cannot be received.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def context(self) -> BaseContext:
        context: BaseContext = mp.get_context("spawn")
        return context

    def fresh(self, nbytes: int) -> Any:
        return torch.empty(nbytes, dtype=torch.uint8).share_memory_()

    def copy_in(self, array: Array) -> Any:
        return torch.from_numpy(array).share_memory_()


PEER = Torch
