"""What a killed consumer leaves behind on the GPU, and how long; how many allocations are opened in a second.

``python -m bench.gpu.deaths [--json FILE]``. Memory of shmtensor's own and memory of a user, held by one
other process, which is killed: bytes that the driver says are in use before and after, and milliseconds
until nobody holds the tensor. On the simulated driver (SHMTENSOR_LIBCUDA) no time is taken.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from bench.gpu.driver import allocate, driver, need

SIZE = 64 << 20
ROUNDS = 20
OPENS = 200
SIMULATED = "SHMTENSOR_LIBCUDA" in os.environ


class Users:
    """Memory of cuMemAlloc, as another library's array; told when it is let go."""

    alive = 0

    def __init__(self, size: int) -> None:
        self.pointer = allocate(size)
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (self.pointer.value, False),
            "strides": None,
            "stream": 1,
        }
        Users.alive += 1

    def __del__(self) -> None:
        driver().cuMemFree_v2(self.pointer)
        Users.alive -= 1


def hold(inbox: Any, outbox: Any) -> None:
    """Take a tensor and keep it until the end."""
    tensor = inbox.get()
    outbox.put(tensor.shape)
    time.sleep(100)


def open_all(inbox: Any, outbox: Any) -> None:
    """Take tensors, each of another allocation, and let each go; answer with the seconds."""
    outbox.put("ready")
    began = time.perf_counter()
    for _ in range(OPENS):
        inbox.get().data_ptr()
    outbox.put(time.perf_counter() - began)


def used_bytes() -> int:
    """Bytes of the device that anybody has."""
    if SIMULATED:
        driver().sim_live_bytes.restype = ctypes.c_uint64
        return int(driver().sim_live_bytes())
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    need(driver().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return total.value - free.value


def killed(kind: str) -> dict[str, float]:
    """One consumer, its death, and what is left."""
    context = mp.get_context("spawn")
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=hold, args=(inbox, outbox), daemon=True)
    process.start()
    blocks = (st.stats() or {"blocks": 0})["blocks"]
    before = used_bytes()
    tensor = st.empty(SIZE, "u1", device="cuda") if kind == "own" else st.asarray(Users(SIZE))
    inbox.put(tensor)
    outbox.get()
    del tensor
    gc.collect()
    began = time.perf_counter()
    os.kill(process.pid or 0, signal.SIGKILL)
    while (st.stats() or {})["blocks"] > blocks or Users.alive:
        if time.perf_counter() > began + 10:
            raise TimeoutError(f"{kind}: the killed consumer's memory does not come back")
    took = (time.perf_counter() - began) * 1e3
    process.join()
    st.cuda.ipc_collect()
    return {"ms": took, "bytes left": used_bytes() - before}


def opens(kind: str) -> float:
    """Allocations opened in a second, each for the first time."""
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.SimpleQueue()
    process = context.Process(target=open_all, args=(inbox, outbox), daemon=True)
    process.start()
    assert outbox.get() == "ready"
    for _ in range(OPENS):
        inbox.put(st.empty(2 << 20, "u1", device="cuda") if kind == "own" else st.asarray(Users(2 << 20)))
    seconds = outbox.get()
    process.join()
    return OPENS / float(seconds)


def main() -> int:
    """Measure both kinds, print, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    found: dict[str, Any] = {"simulated": SIMULATED}
    for kind in ("own", "users"):
        killed(kind)  # starts what starts once
        rounds = [killed(kind) for _ in range(options.rounds)]
        found[kind] = {"bytes left": max(one["bytes left"] for one in rounds)}
        if not SIMULATED:
            times = [one["ms"] for one in rounds]
            found[kind] |= {"median ms": statistics.median(times), "worst ms": max(times)}
            found[kind]["opens/s"] = opens(kind)
        print(kind, found[kind])
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
