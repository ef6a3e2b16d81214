"""Plain multiprocessing with `Queue`, whose thread writes into the pipe."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import BaseContext
from typing import Any

from bench.peers.pickled import Pickled

__all__ = ["PEER"]


class Context:
    """The start method `spawn`, with `Queue` in place of `SimpleQueue`."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.Process = context.Process
        self.SimpleQueue = context.Queue


class PickledByThread(Pickled):
    """Private arrays; copies in the message."""

    name = "pickle-queue"

    def context(self) -> BaseContext:
        context: Any = Context()
        return context


PEER = PickledByThread()
