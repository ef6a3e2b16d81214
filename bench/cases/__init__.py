"""The cases of the benchmark, one file each."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from bench.model import Case

# Name -> module.
CASES = {
    "handover": "handover",
    "list": "lists",
    "latest": "latest",
    "cache": "cache",
    "grid": "grid",
    "pool": "pool",
    "executor": "executor",
    "buffers": "buffers",
    "ordinary": "ordinary",
    "queue": "queues",
    "wakeup": "wakeup",
    "pipes": "pipes",
    "broadcast": "broadcast",
    "copyin": "copyin",
    "alloc": "alloc",
    "atomic": "atomic",
    "locks": "locks",
    "import": "imports",
    "kill": "kill",
    "syscalls": "syscalls",
    "processor": "processor",
    "read": "read",
    "memory": "memory",
    "most": "most",
}

# Cases that are separate programs with their own options and reports.
PROGRAMS = {
    "ram": "one copy of the data for all workers, against the set-ups of a well-known post",
    "launch": "starting workers, against the standard library and torch",
    "dataloader": "batches of torch's DataLoader, with st.install and without; needs torch",
    "dask": "transfers of Dask and a shuffle, with st.install and without; needs distributed",
    "engine": "an engine that broadcasts steps and images to four ranks, as vLLM's does",
    "environments": "vector environments, with the drop-in and without; needs gymnasium",
    "joblib": "tasks of joblib, with st.install and without; needs joblib",
    "ray": "tensors from actor to actor of Ray, with st.install and without; needs ray and torch",
    "scale": "what grows with the members of a session and with its blocks",
}


def load_case(name: str) -> Case:
    """Return a case, without importing a peer's packages."""
    case: Case = importlib.import_module(f"bench.cases.{CASES[name]}").CASE
    return case


def load_program(name: str) -> Callable[[list[str]], int]:
    """Return a program's main function."""
    program: Callable[[list[str]], int] = importlib.import_module(f"bench.cases.{name}").main
    return program
