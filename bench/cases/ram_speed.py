"""The cost of reading and building a SharedList, compared with pickle: part of the case `ram`."""

from __future__ import annotations

import json
import pickle
import random
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor as st
from bench.cases.ram_setups import records

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 20_000
ROUNDS = 15


def _seconds(body: Callable[[], Any]) -> float:
    start = time.perf_counter()
    body()
    return time.perf_counter() - start


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float, float]:
    """Return the least time of both, measured alternately, and their ratio."""
    pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(ROUNDS)]
    mine, other = min(a for a, _ in pairs), min(b for _, b in pairs)
    return mine / max(other, 1e-12), mine, other


def measure(path: str | None = None) -> dict[str, float]:
    """Return ratios, and microseconds per item."""
    items = list(records(COUNT, path))
    small = [{"id": i, "bbox": [1.5, 2.5, 3.5, float(i)], "category": i % 90} for i in range(COUNT)]
    order = random.Random(5).sample(range(len(items)), len(items))  # noqa: S311
    result: dict[str, float] = {"items": len(items)}
    loads = pickle.loads
    for name, these in (("annotation", items), ("small dict", small)):
        shared = st.SharedList(these)
        blobs = [pickle.dumps(item, 5) for item in these]

        def ours(shared: Any = shared) -> None:
            for index in order:
                shared[index]

        def theirs(blobs: list[bytes] = blobs) -> None:
            for index in order:
                loads(blobs[index])

        ratio, mine, other = _ratio(ours, theirs)
        result |= {f"access {name} ratio": ratio, f"access {name} us": mine / len(order) * 1e6}
        result |= {f"access {name} pickle us": other / len(order) * 1e6}

        def build(these: list[Any] = these) -> None:
            st.SharedList(these)

        def dump(these: list[Any] = these) -> None:
            for item in these:
                pickle.dumps(item, 5)

        ratio, mine, other = _ratio(build, dump)
        result |= {f"build {name} ratio": ratio, f"build {name} us": mine / len(order) * 1e6}
        result |= {f"build {name} pickle us": other / len(order) * 1e6}
    arrays = st.SharedList(np.full((3, 4), i, np.float32) for i in range(COUNT))
    _, mine, _ = _ratio(lambda: [arrays[index] for index in order], lambda: None)
    result["access array us"] = mine / len(order) * 1e6
    return result


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1] if len(sys.argv) > 1 else None)))
