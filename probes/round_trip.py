"""Round trips of a CUDA tensor: shmtensor and torch's CUDA sharing in one run.

``python -m probes.round_trip [--json FILE]`` on a machine with a GPU. Measured: one process puts a tensor
of 4 MiB into a queue, another takes it and sends a byte back; the time between, in three kinds: the same
tensor each time, a fresh one, a list of 100. Each way has another process of its own, after warming up:
tensors of shmtensor, with a wait for the device or with events; torch's own sharing; torch's memory shared by
`st.asarray`; and tensors of torch after `st.install`, which copies them on the GPU. The file is written as
results arrive; failures are in it under "error". It refuses to run on the simulated driver, whose times mean
nothing.
"""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from probes.consumer import consumer
from probes.ways import measure_all

if TYPE_CHECKING:
    from collections.abc import Callable

WARM = 20
ROUNDS = 200


def consume(inbox: Any, answers: Any) -> None:
    """Acknowledge everything received."""
    while True:
        inbox.get()
        answers.send_bytes(b"x")


def _shmtensor() -> tuple[Any, Any]:
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    return mp.get_context("spawn"), lambda: st.ones(1 << 20, "f4", device="cuda:0")


def _with_events() -> tuple[Any, Any]:
    import shmtensor as st

    st.cuda.set_sync("event")
    return _shmtensor()


def _torch() -> tuple[Any, Any]:
    import torch
    import torch.multiprocessing as mp

    return mp.get_context("spawn"), lambda: torch.ones(1 << 20, device="cuda:0")


def _memory_of_torch() -> tuple[Any, Any]:
    import shmtensor as st

    st.cuda.set_sync("host")
    _, make = _torch()
    context, _ = _shmtensor()
    return context, lambda: st.asarray(make(), copy=False)


def _installed() -> tuple[Any, Any]:
    import shmtensor as st

    st.install("torch", cuda=True)
    _, make = _torch()
    context, _ = _shmtensor()
    return context, make


# The last one changes how torch's own contexts send.
WAYS = {
    "shmtensor": _shmtensor,
    "shmtensor with events": _with_events,
    "torch": _torch,
    "shmtensor, memory of torch": _memory_of_torch,
    "torch, after st.install": _installed,
}


def measure(load: Callable[[], tuple[Any, Any]], found: dict[str, Any], write: Callable[[], None]) -> None:
    """Measure microseconds of each kind: minimum, median, 99th percentile; fill them in as they arrive."""
    context, make = load()
    with consumer(context, consume) as other:
        same = make()
        many = [make() for _ in range(100)]
        kinds = {"same": lambda: same, "fresh": make, "100 in one message": lambda: many}
        for name, kind in kinds.items():
            times = []
            for number in range(WARM + ROUNDS):
                item = kind()
                start = time.perf_counter()
                other.put(item)
                other.answer()
                if number >= WARM:
                    times.append((time.perf_counter() - start) * 1e6)
            times.sort()
            found[name] = {
                "min": times[0],
                "median": statistics.median(times),
                "p99": times[len(times) * 99 // 100],
            }
            write()


if __name__ == "__main__":
    sys.exit(measure_all(__doc__, {name: partial(measure, load) for name, load in WAYS.items()}))
