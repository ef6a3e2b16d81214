"""A web server whose workers share one model: the first that starts loads it, the others attach.

uvicorn --app-dir examples --workers 4 fastapi_one_model:app
gunicorn --chdir examples --workers 4 --worker-class uvicorn_worker.UvicornWorker fastapi_one_model:app
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import FastAPI

import shmtensor as st

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def load() -> dict[str, Any]:
    """Load the model, in one worker only."""
    vectors = np.random.default_rng(0).standard_normal((20_000, 64), dtype=np.float32)
    return {
        "vectors": st.asarray(vectors),
        "names": st.SharedList.of_strings(f"item {i}" for i in range(len(vectors))),
        "loaded by": os.getpid(),
    }


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Attach the model while the worker serves."""
    app.state.model = st.once("fastapi_one_model", load)
    yield


app = FastAPI(lifespan=lifespan)


@app.get("/nearest/{index}")
def nearest(index: int) -> dict[str, Any]:
    """Return the item whose vector is most similar to that of another item."""
    model = app.state.model
    vectors = model["vectors"].numpy()
    similarity = vectors @ vectors[index]
    similarity[index] = -np.inf
    name = model["names"][int(similarity.argmax())]
    return {"name": name, "pid": os.getpid(), "loaded_by": model["loaded by"]}
