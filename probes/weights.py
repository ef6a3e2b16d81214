"""Weights from a trainer to two engines on one GPU: `st.publish` beside torch's own sharing.

``python -m probes.weights [--json FILE] [--seconds N]`` on a machine with a GPU of 80 GB and torch. A
`state_dict` of 16 GB in 300 tensors of bfloat16. With shmtensor the trainer publishes a copy, and the engines
attach and use it, or it sends buckets of 512 MB, which they copy into their own weights; with torch alone the
trainer sends its tensors through a queue to each engine, which copies them into its own. Measured:
milliseconds until both engines have read an element of a new generation, which is checked; until it is sent;
and what remains in use on the GPU after the engines were killed. On the simulated driver the tensors are
small, and no time is kept.
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from probes.consumer import Consumer, consumer
from probes.deaths import SIMULATED, used_bytes
from probes.ways import measure_all

if TYPE_CHECKING:
    from collections.abc import Callable

TENSORS = 300
COUNT = 1000 if SIMULATED else 16_000_000_000 // TENSORS // 2  # elements of a tensor
GENERATIONS = 6  # the first one warms up
ENGINES = 2
NAME = "bench/weights"
BUCKET = 512 << 20


def attach_all(inbox: Any, answers: Any) -> None:
    """Attach to each generation, and drop the one before."""
    import shmtensor as st

    st.install("torch", cuda=True)
    weights: Any = None
    while True:
        weights = st.attach(inbox.get())
        answers.send_bytes(str(weights[TENSORS - 1][-1].item()).encode())


def copy_all(inbox: Any, answers: Any) -> None:
    """Copy each generation into the engine's own tensors."""
    own: list[Any] = []
    while True:
        weights = inbox.get()
        own = own or [tensor.clone() for tensor in weights]
        for mine, tensor in zip(own, weights, strict=True):
            mine.copy_(tensor)
        answers.send_bytes(str(own[TENSORS - 1][-1].item()).encode())
        del weights, tensor


def copy_buckets(inbox: Any, answers: Any) -> None:
    """Copy each generation into the engine's own tensors, a bucket at a time."""
    import torch

    from examples.weight_buckets import receive

    own = {str(each): torch.empty(COUNT, dtype=torch.bfloat16, device="cuda:0") for each in range(TENSORS)}
    with inbox.get().reader() as reader:
        while True:
            receive(reader, own)
            answers.send_bytes(str(own[str(TENSORS - 1)][-1].item()).encode())


def publish(weights: Any, engines: list[Consumer]) -> None:
    """Publish a copy, and notify the engines."""
    import shmtensor as st

    st.publish(NAME, weights)
    for engine in engines:
        engine.put(NAME)


def put(weights: Any, engines: list[Consumer]) -> None:
    """Send the tensors to each engine."""
    for engine in engines:
        engine.put(weights)


def _shmtensor() -> tuple[Any, ...]:
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    st.install("torch", cuda=True)
    return mp.get_context("spawn"), attach_all, publish, lambda: st.unpublish(NAME)


def _buckets() -> tuple[Any, ...]:
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from examples import weight_buckets

    weight_buckets.BUCKET = BUCKET
    broadcast: Any = st.Broadcast(weight_buckets.UNREAD)

    def send(weights: Any, engines: list[Consumer]) -> None:
        if broadcast.readers == 0:
            for engine in engines:
                engine.put(broadcast)
            broadcast.wait_for_readers(ENGINES, timeout=60)
        weight_buckets.send(0, {str(each): tensor for each, tensor in enumerate(weights)}, broadcast)

    return mp.get_context("spawn"), copy_buckets, send, lambda: None


def _torch() -> tuple[Any, ...]:
    import torch.multiprocessing as mp

    return mp.get_context("spawn"), copy_all, put, lambda: None


def measure(load: Callable[[], tuple[Any, ...]], found: dict[str, Any], write: Callable[[], None]) -> None:
    """Measure the generations, and fill their times in as they arrive."""
    import torch

    context, target, send, forget = load()
    torch.cuda.empty_cache()
    unused = used_bytes()
    weights = [torch.empty(COUNT, dtype=torch.bfloat16, device="cuda:0") for _ in range(TENSORS)]
    sent, read = [], []
    with ExitStack() as stack:
        engines = [stack.enter_context(consumer(context, target)) for _ in range(ENGINES)]
        for generation in range(GENERATIONS):
            weights[-1][-1:].copy_(torch.tensor([generation]).bfloat16())  # no kernel
            torch.cuda.synchronize()
            start = time.perf_counter()
            send(weights, engines)
            sent.append((time.perf_counter() - start) * 1e3)
            answers = [float(engine.answer()) for engine in engines]
            read.append((time.perf_counter() - start) * 1e3)
            if answers != [generation] * ENGINES:
                raise RuntimeError(f"the engines read {answers} in generation {generation}")
            if not SIMULATED:
                found["ms"] = {
                    "sent": statistics.median(sent[1:] or sent),
                    "read": statistics.median(read[1:] or read),
                }
            write()
    forget()
    del weights
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    import shmtensor as st

    st.cuda.ipc_collect()
    found["left"] = {"MiB": (used_bytes() - unused) / (1 << 20)}


# The last one changes how torch's own contexts send.
WAYS = {"torch": _torch, "shmtensor, in buckets": _buckets, "shmtensor": _shmtensor}

if __name__ == "__main__":
    sys.exit(
        measure_all(__doc__, {name: partial(measure, load) for name, load in WAYS.items()}, on_simulator=True)
    )
