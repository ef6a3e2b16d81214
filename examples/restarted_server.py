"""An inference server that is killed, and has its model again in less than a second after its restart.

SHMTENSOR_SESSION=models uvicorn --app-dir examples restarted_server:app

Kill it with SIGKILL and start it again. `shmtensor ls models` shows what is kept meanwhile, and
`shmtensor drop models model` frees it.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from fastapi import FastAPI

import shmtensor as st


def load() -> dict[str, Any]:
    """Stand in for minutes of reading and converting files."""
    vectors = np.random.default_rng(0).standard_normal((20_000, 64), dtype=np.float32)
    return {"vectors": vectors, "loaded by": os.getpid()}


begin = time.perf_counter()
model = st.once("model", load, keep=True)  # one copy in shared memory, also if several servers start
print(f"model after {time.perf_counter() - begin:.3f} s", flush=True)
app = FastAPI()


@app.get("/nearest/{index}")
def nearest(index: int) -> dict[str, int]:
    """Return the item whose vector is most similar to that of another item."""
    similarity = model["vectors"] @ model["vectors"][index]
    similarity[index] = -np.inf
    return {"nearest": int(similarity.argmax()), "loaded_by": model["loaded by"]}
