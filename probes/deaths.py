"""The GPU memory that a killed consumer leaves, and for how long; allocations opened per second.

``python -m probes.deaths [--json FILE]``. Memory of shmtensor and memory of a user, held by one other
process, which is killed: bytes that the driver reports in use before and after, and milliseconds until no
process holds the tensor. The file is written as results arrive; failures are in it under "error". On the
simulated driver (SHMTENSOR_LIBCUDA) no time is measured.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import pickle
import statistics
import sys
import time
import traceback
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from probes.consumer import consumer
from probes.driver import allocate, array_interface, call, driver
from probes.keep import keep, limited

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 64 << 20
ROUNDS = 10
OPENS = 50
SECONDS = 120.0
SIMULATED = "SHMTENSOR_LIBCUDA" in os.environ


class Users:
    """Memory of cuMemAlloc, as another library's array; counts live instances."""

    alive = 0

    def __init__(self, size: int) -> None:
        self.pointer = allocate(size)
        self.__cuda_array_interface__ = array_interface(self.pointer, size)
        Users.alive += 1

    def __del__(self) -> None:
        Users.alive -= 1  # the time that the driver takes is not measured
        driver().cuMemFree_v2(self.pointer)


def hold(inbox: Any, answers: Any) -> None:
    """Take a tensor and keep it until the end."""
    tensor = inbox.get()
    answers.send_bytes(str(tensor.shape).encode())
    time.sleep(100)


def open_all(inbox: Any, answers: Any) -> None:
    """Start the driver by a first tensor; open and release others; answer with the seconds of these."""
    inbox.get().data_ptr()
    answers.send_bytes(b"ready")
    messages = inbox.get()
    began = time.perf_counter()
    for message in messages:
        pickle.loads(message).data_ptr()
    answers.send_bytes(str(time.perf_counter() - began).encode())


def used_bytes() -> int:
    """Return the bytes of the device that are in use by any process."""
    if SIMULATED:
        driver().sim_live_bytes.restype = ctypes.c_uint64
        return int(driver().sim_live_bytes())
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


def tensor_of(kind: str, size: int) -> st.Tensor:
    return st.empty(size, "u1", device="cuda") if kind == "own" else st.asarray(Users(size))


def wait_until(condition: Callable[[], bool], timeout: float) -> float:
    """Return the milliseconds until the condition holds, or until the timeout in seconds."""
    began = time.perf_counter()
    while not condition() and time.perf_counter() < began + timeout:
        time.sleep(0.0002)  # the thread that releases owners needs the interpreter
    return (time.perf_counter() - began) * 1e3


def killed(kind: str) -> dict[str, float]:
    """Kill one consumer and measure what remains."""
    with consumer(mp.get_context("spawn"), hold) as other:
        blocks = (st.stats() or {"blocks": 0})["blocks"]
        before = used_bytes()
        tensor = tensor_of(kind, SIZE)
        other.put(tensor)
        other.answer()
        del tensor
        gc.collect()
        other.process.kill()
        ms = wait_until(lambda: (st.stats() or {})["blocks"] <= blocks and not Users.alive, 10)
        if (st.stats() or {})["blocks"] > blocks or Users.alive:
            raise TimeoutError(f"{kind}: the killed consumer's memory does not come back")
    st.cuda.ipc_collect()
    wait_until(lambda: used_bytes() <= before, 1)  # the driver frees after the process's end
    return {"ms": ms, "bytes left": used_bytes() - before}


def opens(kind: str) -> float:
    """Return the number of allocations opened in a second, each for the first time."""
    size = SIZE if kind == "own" else 2 << 20  # own tensors of this size have a chunk each
    with consumer(mp.get_context("spawn"), open_all) as other:
        other.put(tensor_of(kind, size))
        other.answer()
        tensors = [tensor_of(kind, size) for _ in range(OPENS)]
        other.put([bytes(ForkingPickler.dumps(tensor)) for tensor in tensors])
        return OPENS / float(other.answer())


def measure(kind: str, rounds: int, found: dict[str, Any], write: Callable[[], None]) -> None:
    """Measure, and fill in the results as they arrive."""
    killed(kind)  # starts the session and the driver
    times: list[float] = []
    found["bytes left"] = 0
    for _ in range(rounds):
        one = killed(kind)
        times.append(one["ms"])
        found["bytes left"] = max(found["bytes left"], one["bytes left"])
        if not SIMULATED:
            found |= {"median ms": statistics.median(times), "worst ms": max(times), "rounds": len(times)}
        write()
    if not SIMULATED:
        found["opens/s"] = opens(kind)


def forget() -> None:
    """Release what a failed measurement left, unread messages included; the next one needs the memory."""
    gc.collect()
    st.gc(0)
    st.cuda.ipc_collect()


def main() -> int:
    """Measure both kinds, print the results, and write them to the file of `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all of it")
    options = parser.parse_args()
    found: dict[str, Any] = {"simulated": SIMULATED}
    end = time.monotonic() + options.seconds
    for share, kind in ((2, "own"), (1, "users")):  # the last kind gets the remaining time
        found[kind] = {}
        try:
            with limited((end - time.monotonic()) / share):
                measure(kind, options.rounds, found[kind], lambda: keep(options.json, found))
        except Exception as error:  # the other kind may succeed
            found[kind]["error"] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        forget()
        keep(options.json, found)
        print(kind, found[kind], flush=True)
    return int(any("error" in found[kind] for kind in ("own", "users")))


if __name__ == "__main__":
    sys.exit(main())
