"""Sends while a kernel of the sender is running: how soon the sender goes on, and what both processors do.

``python -m probes.flight [--json FILE] [--seconds N]`` on a machine with a GPU and torch. Eight times, the
sender starts a kernel of so many milliseconds, fills a tensor of 4 MiB behind it, and puts the tensor into a
queue. Measured, for shmtensor with `set_sync("host")` and `set_sync("event")` and for torch's own sharing, in
milliseconds: a `put`; all eight until they are sent, and until the receiver has read the last element of
each, which is checked; the processor time of both processes meanwhile.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from probes.consumer import Consumer, consumer
from probes.ways import measure_all

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 1 << 20
MESSAGES = 8
ROUNDS = 5
KERNELS = (0, 1, 10, 100)  # milliseconds
CYCLES = 20_000_000


def consume(inbox: Any, answers: Any) -> None:
    """Read the last element of each tensor; after eight, answer with the processor time and the elements."""
    import torch

    while True:
        item = inbox.get()
        began, found = time.process_time(), []
        while True:
            found.append(int(torch.from_dlpack(item)[-1].item()))
            if len(found) == MESSAGES:
                break
            item = inbox.get()
        del item
        answers.send_bytes(f"{time.process_time() - began} {found}".encode())


def _shmtensor(sync: Literal["host", "event"]) -> tuple[Any, Callable[[], Any]]:
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    st.cuda.set_sync(sync)
    return mp.get_context("spawn"), lambda: st.empty(COUNT, "f4", device="cuda:0")


def _torch() -> tuple[Any, Callable[[], Any]]:
    import torch
    import torch.multiprocessing as mp

    return mp.get_context("spawn"), lambda: torch.empty(COUNT, device="cuda:0")


WAYS: dict[str, Callable[[], tuple[Any, Callable[[], Any]]]] = {
    "shmtensor, host": partial(_shmtensor, "host"),
    "shmtensor, event": partial(_shmtensor, "event"),
    "torch": _torch,
}


def _cycles_of_a_millisecond() -> float:
    import torch

    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(CYCLES)  # warms up
    first.record()
    torch.cuda._sleep(CYCLES)
    last.record()
    torch.cuda.synchronize()
    return float(CYCLES / first.elapsed_time(last))


def _round(other: Consumer, make: Callable[[], Any], cycles: int, times: dict[str, list[float]]) -> None:
    import torch

    def note(name: str, seconds: float) -> None:
        times[name].append(seconds * 1e3)

    torch.cuda.synchronize()
    kept = []
    start, used = time.perf_counter(), time.process_time()
    for message in range(MESSAGES):
        tensor = make()
        torch.cuda._sleep(cycles)
        torch.from_dlpack(tensor).fill_(message)
        before = time.perf_counter()
        other.put(tensor)
        note("put", time.perf_counter() - before)
        kept.append(tensor)
    note("all sent", time.perf_counter() - start)
    seconds, elements = other.answer().decode().split(" ", 1)
    note("all read", time.perf_counter() - start)
    note("sender's processor", time.process_time() - used)
    note("receiver's processor", float(seconds))
    if elements != str(list(range(MESSAGES))):
        raise RuntimeError(f"the receiver read {elements}")


def measure(
    load: Callable[[], tuple[Any, Callable[[], Any]]], found: dict[str, Any], write: Callable[[], None]
) -> None:
    """Measure the medians for all kernels, and fill them in as they arrive."""
    context, make = load()
    with consumer(context, consume) as other:
        cycles = _cycles_of_a_millisecond()
        for kernel in KERNELS:
            times: dict[str, list[float]] = defaultdict(list)
            _round(other, make, 0, defaultdict(list))
            for _ in range(ROUNDS):
                _round(other, make, int(kernel * cycles), times)
            found[f"{kernel} ms"] = {name: statistics.median(each) for name, each in times.items()}
            write()


if __name__ == "__main__":
    sys.exit(measure_all(__doc__, {name: partial(measure, load) for name, load in WAYS.items()}))
