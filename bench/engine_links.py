"""How an engine broadcasts to its ranks and gets their answers: one class for each way.

A link is made by the engine. `ends` returns what a rank calls, in its own process, for its two ends.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import pickle
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import shmtensor as st

TIMEOUT = 120  # seconds that a process waits for a message

Ends = tuple[Callable[[], Any], Callable[[Any], object]]
"""What a rank calls to receive a message, and to answer."""

Open = Callable[[], Ends]


class Link(ABC):
    """The engine's side."""

    @abstractmethod
    def __init__(self, ranks: int) -> None: ...

    @abstractmethod
    def ends(self, rank: int) -> Open:
        """Return what is sent to a rank."""

    def connect(self) -> None:  # noqa: B027
        """Wait until all ranks are there."""

    def image(self, shape: tuple[int, ...]) -> Any:
        """Return an array of 32-bit floats in the memory in which this way prefers it."""
        return np.empty(shape, np.float32)

    @abstractmethod
    def send(self, message: Any) -> None:
        """Send a message to all ranks."""

    @abstractmethod
    def answer(self) -> Any:
        """Return the next answer, of any rank."""

    @abstractmethod
    def close(self) -> None:
        """Close the link, after the ranks have ended."""


class _OfTorch(Link):
    def image(self, shape: tuple[int, ...]) -> Any:
        torch = importlib.import_module("torch")
        return torch.empty(shape, dtype=torch.float32)


class Shmtensor(Link):
    """Images in shared memory: handles."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._steps: st.Broadcast[Any] = st.Broadcast(10)  # messages, as many as vLLM's queue holds
        self._answers: st.Queue[Any] = st.Queue()

    def ends(self, _rank: int) -> Open:
        return partial(_shmtensor_ends, self._steps, self._answers)

    def connect(self) -> None:
        self._steps.wait_for_readers(self._ranks, timeout=TIMEOUT)

    def image(self, shape: tuple[int, ...]) -> Any:
        return st.empty(shape, np.float32)

    def send(self, message: Any) -> None:
        self._steps.put(message, timeout=TIMEOUT)

    def answer(self) -> Any:
        return self._answers.get(timeout=TIMEOUT)

    def close(self) -> None:
        self._steps.close()
        self._answers.close()


class ShmtensorCopy(Shmtensor):
    """Images in private memory: one copy for all ranks."""

    def image(self, shape: tuple[int, ...]) -> Any:
        return Link.image(self, shape)


def _shmtensor_ends(steps: st.Broadcast[Any], answers: st.Queue[Any]) -> Ends:
    return partial(steps.reader().get, timeout=TIMEOUT), answers.put


class TorchQueue(_OfTorch):
    """A queue of torch.multiprocessing for each rank; the images are torch's tensors."""

    def __init__(self, ranks: int) -> None:
        context = importlib.import_module("torch.multiprocessing").get_context("spawn")
        self._steps = [context.SimpleQueue() for _ in range(ranks)]
        self._answers = context.SimpleQueue()

    def ends(self, rank: int) -> Open:
        return partial(_torch_ends, self._steps[rank], self._answers)

    def send(self, message: Any) -> None:
        for queue in self._steps:
            queue.put(message)

    def answer(self) -> Any:
        return self._answers.get()

    def close(self) -> None:
        for queue in (*self._steps, self._answers):
            queue.close()


def _torch_ends(steps: Any, answers: Any) -> Ends:
    importlib.import_module("torch").set_num_threads(1)
    return steps.get, answers.put


class ZeroMq(Link):
    """Pickles over publisher and subscribers, with large buffers as parts of their own.

    This is what vLLM does for readers of other hosts, and for messages that its ring has no room for.
    """

    def __init__(self, ranks: int) -> None:
        zmq = importlib.import_module("zmq")
        self._ranks = ranks
        self._folder = tempfile.TemporaryDirectory()
        self._addresses = [f"ipc://{Path(self._folder.name, name)}" for name in ("steps", "answers")]
        self._context = zmq.Context()
        self._steps, self._answers = self._context.socket(zmq.XPUB), self._context.socket(zmq.PULL)
        self._steps.setsockopt(zmq.XPUB_VERBOSE, True)
        for socket, address in zip((self._steps, self._answers), self._addresses, strict=True):
            socket.setsockopt(zmq.RCVTIMEO, TIMEOUT * 1000)
            socket.bind(address)

    def ends(self, _rank: int) -> Open:
        return partial(_zmq_ends, *self._addresses)

    def connect(self) -> None:
        for _ in range(self._ranks):
            self._steps.recv()  # a subscription

    def send(self, message: Any) -> None:
        self._steps.send_multipart(_parts(message), copy=False)

    def answer(self) -> Any:
        return pickle.loads(self._answers.recv())

    def close(self) -> None:
        self._steps.close(linger=0)
        self._answers.close(linger=0)
        self._context.term()
        self._folder.cleanup()


def _parts(message: Any) -> list[Any]:
    parts: list[Any] = [b""]

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < 1 << 20:  # vLLM's limit
            return True
        parts.append(raw)
        return False

    parts[0] = pickle.dumps(message, pickle.HIGHEST_PROTOCOL, buffer_callback=stays)
    return parts


def _zmq_ends(steps: str, answers: str) -> Ends:
    zmq = importlib.import_module("zmq")
    context = zmq.Context.instance()
    subscriber, pusher = context.socket(zmq.SUB), context.socket(zmq.PUSH)
    subscriber.setsockopt(zmq.SUBSCRIBE, b"")
    subscriber.setsockopt(zmq.RCVTIMEO, TIMEOUT * 1000)
    subscriber.connect(steps)
    pusher.connect(answers)

    def receive() -> Any:
        first, *others = subscriber.recv_multipart(copy=False)
        return pickle.loads(first, buffers=others)

    def answer(message: Any) -> None:
        pusher.send(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    return receive, answer


class Vllm(_OfTorch):
    """vLLM's MessageQueue to all ranks, and one from each; the images are torch's tensors."""

    def __init__(self, ranks: int) -> None:
        from bench.peers.vllm_queue import message_queue

        self._steps = message_queue()(ranks, ranks)
        self._answers: list[Any] = []
        self._next = 0
        context = multiprocessing.get_context("spawn")
        self._handles = [context.SimpleQueue() for _ in range(ranks)]

    def ends(self, rank: int) -> Open:
        handle = pickle.dumps(self._steps.export_handle())
        return partial(_vllm_ends, handle, rank, self._handles[rank])

    def connect(self) -> None:
        from bench.peers.vllm_queue import message_queue

        for handles in self._handles:
            queue = message_queue().create_from_handle(pickle.loads(handles.get()), 0)
            self._answers.append(queue)
        self._steps.wait_until_ready()
        for queue in self._answers:
            queue.wait_until_ready()

    def send(self, message: Any) -> None:
        self._steps.enqueue(message, timeout=TIMEOUT)

    def answer(self) -> Any:
        self._next = (self._next + 1) % len(self._answers)
        return self._answers[self._next].dequeue(timeout=TIMEOUT)

    def close(self) -> None:
        del self._steps
        self._answers.clear()


def _vllm_ends(handle: bytes, rank: int, handles: Any) -> Ends:
    from bench.peers.vllm_queue import message_queue

    importlib.import_module("torch").set_num_threads(1)
    steps = message_queue().create_from_handle(pickle.loads(handle), rank)
    answers = message_queue()(1, 1)
    handles.put(pickle.dumps(answers.export_handle()))
    steps.wait_until_ready()
    answers.wait_until_ready()
    return partial(steps.dequeue, timeout=TIMEOUT), answers.enqueue


LINKS: dict[str, tuple[type[Link], tuple[str, ...]]] = {
    "shmtensor": (Shmtensor, ()),
    "shmtensor-copy": (ShmtensorCopy, ()),
    "torch-queue": (TorchQueue, ("torch",)),
    "zmq": (ZeroMq, ("zmq",)),
    "vllm": (Vllm, ("torch", "zmq", "vllm")),
}
"""By name: the class, and the packages that it needs."""


def missing(name: str) -> str | None:
    """Return the package that a link lacks; None if it can be made."""
    for package in LINKS[name][1]:
        if importlib.util.find_spec(package) is None:
            return package
    return None
