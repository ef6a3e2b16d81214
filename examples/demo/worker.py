"""A worker of the demo: it keeps the whole table, and answers each batch with the means of its columns."""

from __future__ import annotations

import multiprocessing
import os
import threading
from contextlib import closing, nullcontext
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from ways import Segment, opened

import shmtensor as st


def means(table: np.ndarray) -> tuple[float, ...]:
    """Return the mean of each column."""
    return tuple(table.mean(axis=0).tolist())


def _end_with_loader() -> None:
    """End this worker if the loader was killed: a queue of the standard library does not report that."""
    loader = multiprocessing.parent_process()
    assert loader is not None
    loader.join()
    os._exit(1)


def work(tasks: Any, whole: Any, answers: Connection) -> None:
    """Report the means of the table, then those of each batch."""
    threading.Thread(target=_end_with_loader, daemon=True).start()
    answers.send(("ready", -1, means(opened(whole))))
    for number, pause, message in tasks if isinstance(tasks, st.Queue) else iter(tasks.get, None):
        with closing(message) if isinstance(message, Segment) else nullcontext():
            if pause:
                answers.send(
                    ("paused", number, ())
                )  # in the middle of the batch: killed here, or allowed to continue
                answers.recv()
            answers.send(("done", number, means(opened(message))))
    if isinstance(whole, Segment):
        whole.close()
