"""`map` of Hugging Face datasets with workers that share one table: python examples/datasets_map.py [MIB].

A sample gets its nearest neighbour in one table of vectors. As an array, the table is copied for each worker;
as a tensor it is not: all workers use the same memory. The program prints the time and the memory of both.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from datasets import Dataset, disable_progress_bars

import shmtensor as st

WORKERS = 2


def nearest(sample: dict[str, Any], table: Any) -> dict[str, Any]:
    """Return the most similar row of a table, and the memory that this worker has alone."""
    row = int(np.argmax(np.asarray(table) @ np.asarray(sample["vector"], np.float32)))
    return {"row": row, "own": st.memory.process_memory().uss}


def measured(samples: Dataset, table: Any) -> tuple[list[int], float, float]:
    """Return the rows, the seconds, and the MiB that a worker has alone."""
    start = time.perf_counter()
    found = samples.map(nearest, num_proc=WORKERS, fn_kwargs={"table": table}, new_fingerprint=str(id(table)))
    return found["row"][:], time.perf_counter() - start, max(found["own"]) / 2**20


def main(mib: int = 128) -> None:
    """Map twice."""
    disable_progress_bars()
    random = np.random.default_rng(0)
    table = random.standard_normal((mib * 2**20 // 256, 64), dtype=np.float32)
    samples = Dataset.from_dict({"vector": random.standard_normal((20, 64)).tolist()})
    alone = measured(samples, table)
    st.install("multiprocess")
    shared = st.asarray(table)
    ours = measured(samples, shared)
    assert ours[0] == alone[0]
    print(f"a table of {mib} MiB")
    for name, (_, seconds, own) in (("datasets", alone), ("shmtensor", ours)):
        print(f"{name}: {seconds:.1f} s, {own:.0f} MiB in a worker")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
