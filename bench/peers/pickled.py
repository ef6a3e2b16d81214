"""Plain multiprocessing: a NumPy array goes through the pipe, byte by byte."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np

from bench.peers import Array

__all__ = ["PEER"]


class Pickled:
    """Private arrays; copies in the message."""

    name = "pickle"

    def context(self) -> BaseContext:
        return multiprocessing.get_context("spawn")

    def fresh(self, nbytes: int) -> Any:
        return np.empty(nbytes, np.uint8)

    def copy_in(self, array: Array) -> Any:
        return array.copy()

    def message(self, item: Any) -> Any:
        return item

    def receive(self, message: Any) -> Any:
        return message

    def array(self, received: Any) -> Array:
        array: Array = received
        return array

    def drop(self, received: Any) -> None:
        pass

    def dispose(self, item: Any) -> None:
        pass


PEER = Pickled()
