"""SIGKILL of a holder, until its block can be allocated again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options

NBYTES = 64 << 20
TIMEOUT = 10.0


def _hold(inbox: Any, outbox: Any) -> None:
    tensor = inbox.get()
    outbox.put("held")
    time.sleep(60)  # killed before the time is over
    del tensor


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from bench.peers import load_peer

    load_peer(peer_name)
    # Forked, since only a fork starts hundreds of holders in a few seconds; the tensor is sent later.
    context: Any = mp.get_context("fork")
    kills = 1 if options.quick else 20
    st.set_limit(NBYTES + NBYTES // 2)  # room for one block, not for two

    def kill_once() -> float:
        inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
        holder = context.Process(target=_hold, args=(inbox, outbox), daemon=True)
        holder.start()
        tensor = st.empty(NBYTES, "u1")
        inbox.put(tensor)
        assert outbox.get() == "held"
        del tensor
        start = time.perf_counter()
        holder.kill()
        while True:
            try:
                st.empty(NBYTES, "u1")
                break
            except st.OutOfSharedMemory:
                if time.perf_counter() - start > TIMEOUT:
                    raise
                time.sleep(1e-4)
        seconds = time.perf_counter() - start
        holder.join(TIMEOUT)
        inbox.close()
        outbox.close()
        return seconds

    def measure(_variant: str) -> Measure:
        return {f"kill {i}": kill_once() for i in range(kills)}

    yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for peer in CASE.peers:
        if not samples.has(peer, "64 MiB"):
            continue
        times = [t for measure in samples.all(peer, "64 MiB") for t in measure.values()]
        summary = Summary.of(times, 1e3)
        rows.append(Row(f"{len(times)} kills", peer, "ms", summary, goal=Goal(20, "most")))
    return rows


CASE = Case(
    name="kill",
    summary="SIGKILL of the only holder of 64 MiB until they can be allocated again",
    peers=("shmtensor", "shmtensor-fs"),
    variants=lambda _peer, _options: ["64 MiB"],
    probe=_probe,
    rows=_rows,
    rounds=10,
)
