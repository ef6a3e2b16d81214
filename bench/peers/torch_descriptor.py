"""torch.multiprocessing with its default strategy."""

from __future__ import annotations

import resource
from multiprocessing.context import BaseContext
from typing import Any

import torch
import torch.multiprocessing as mp

from bench.peers import Array

__all__ = ["PEER", "Torch"]


class Torch:
    """Tensors in a segment each; the reader of a message requests the descriptor or opens the name."""

    def __init__(self, name: str, strategy: str) -> None:
        self.name = name
        mp.set_sharing_strategy(strategy)
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

    def message(self, item: Any) -> Any:
        return item

    def receive(self, message: Any) -> Any:
        return message

    def array(self, received: Any) -> Array:
        array: Array = received.numpy()
        return array

    def drop(self, received: Any) -> None:
        pass

    def dispose(self, item: Any) -> None:
        pass


PEER = Torch("torch-fd", "file_descriptor")
