"""The set-ups of the case `ram`: ``python -m bench.cases.ram_setups NAME COUNT [FILE]``.

A set-up loads the records, starts its workers, lets each of them read every record once, prints the role of
each process as a line of JSON, and waits on its standard input while it is measured from outside.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS = 4
TEMPLATES = 4096


def records(count: int, path: str | None = None) -> Iterator[dict[str, Any]]:
    """Return records like those of COCO's instances_train2017.json, or the annotations of a real file."""
    if path:
        yield from json.loads(Path(path).read_text())["annotations"][:count]
        return
    chance = random.Random(2017)  # noqa: S311

    def numbers(many: int) -> list[float]:
        return [round(chance.random() * 640, 2) for _ in range(many)]

    templates = [
        pickle.dumps(
            {
                "segmentation": [numbers(2 * max(3, int(chance.lognormvariate(3.1, 0.6))))],
                "area": chance.random() * 1e5,
                "iscrowd": 0,
                "image_id": 0,
                "bbox": numbers(4),
                "category_id": chance.randrange(1, 91),
                "id": 0,
            }
        )
        for _ in range(TEMPLATES)
    ]
    for number in range(count):
        record = pickle.loads(templates[number % TEMPLATES])  # distinct objects each time
        record["id"] = 900_000_000 + number
        record["image_id"] = number // 7
        yield record


class NumpyList:
    """The post's NumpySerializedList: an array of pickles, and an array of their offsets."""

    def __init__(self, items: list[Any]) -> None:
        blobs = [np.frombuffer(pickle.dumps(item, -1), np.uint8) for item in items]
        self.ends = np.cumsum([len(blob) for blob in blobs])
        self.bytes = np.concatenate(blobs)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Any:
        start = 0 if index == 0 else self.ends[index - 1]
        return pickle.loads(memoryview(self.bytes[start : self.ends[index]]))


class TorchList:
    """The post's TorchSerializedList: the same in tensors, which torch shares when they are sent."""

    def __init__(self, items: list[Any]) -> None:
        import torch

        plain = NumpyList(items)
        self.ends = torch.from_numpy(plain.ends)
        self.bytes = torch.from_numpy(plain.bytes)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Any:
        start = 0 if index == 0 else self.ends[index - 1].item()
        return pickle.loads(memoryview(self.bytes[start : self.ends[index].item()].numpy()))


def _build(kind: str, count: int, path: str | None) -> Any:
    if kind == "ours":
        import shmtensor as st

        return st.SharedList(records(count, path))
    items = list(records(count, path))
    if kind == "list":
        return items
    return NumpyList(items) if kind == "numpy" else TorchList(items)


def _read(data: Any, done: Any, leave: Any) -> None:
    for index in range(len(data)):
        data[index]["id"]
    done.release()
    leave.wait(1200)


def _context(kind: str, method: str) -> Any:
    name = {"ours": "shmtensor.multiprocessing", "torch": "torch.multiprocessing"}.get(
        kind, "multiprocessing"
    )
    context = importlib.import_module(name).get_context(method)
    if kind == "torch" and method == "forkserver":
        context.set_forkserver_preload(["torch", "numpy"])
    return context


def _with_workers(data: Any, context: Any, roles: dict[int, str], rank: str) -> Any:
    """Start workers that read everything; return the event that ends them, and the workers."""
    done, leave = context.Semaphore(0), context.Event()
    workers = [context.Process(target=_read, args=(data, done, leave)) for _ in range(WORKERS)]
    roles[os.getpid()] = f"{rank}parent"
    for number, worker in enumerate(workers):
        worker.start()
        roles[worker.pid] = f"{rank}worker {number}"
    for _ in workers:
        if not done.acquire(timeout=1100):
            raise TimeoutError("a worker did not read everything")
    return leave, workers


def _report_roles(roles: dict[int, str], data: Any) -> None:
    nbytes = getattr(data, "nbytes", 0) or getattr(getattr(data, "bytes", None), "nbytes", 0)
    print(json.dumps({"roles": roles, "nbytes": nbytes}), flush=True)
    sys.stdin.readline()


def _run(name: str, count: int, path: str | None) -> None:
    """Be the program of a set-up, or one of two ranks without a common parent."""
    kind, method, ranks, _ = SETUPS[name]
    if kind == "ours" and ranks > 1:
        import shmtensor as st

        data = st.once("records", lambda: _build(kind, count, path))
    else:
        data = _build(kind, count, path)
    roles: dict[int, str] = {}
    rank = f"rank {os.environ['RANK']} " if ranks > 1 else ""
    leave, workers = _with_workers(data, _context(kind, method), roles, rank)
    _report_roles(roles, data)
    leave.set()
    for worker in workers:
        worker.join()


# Name -> kind, start method, ranks, description.
SETUPS: dict[str, tuple[str, str, int, str]] = {
    "naive-fork": ("list", "fork", 1, "Python list, fork"),
    "numpy-fork": ("numpy", "fork", 1, "NumPy blob, fork"),
    "numpy-spawn": ("numpy", "spawn", 1, "NumPy blob, spawn"),
    "torch-spawn": ("torch", "spawn", 1, "torch tensor, spawn"),
    "torch-forkserver": ("torch", "forkserver", 1, "torch tensor, forkserver with torch preloaded"),
    "torch-ranks": ("torch", "forkserver", 2, "two ranks, a torch tensor each"),
    "ours-fork": ("ours", "fork", 1, "SharedList, fork"),
    "ours-spawn": ("ours", "spawn", 1, "SharedList, spawn"),
    "ours-forkserver": ("ours", "forkserver", 1, "SharedList, forkserver"),
    "ours-server": ("ours", "server", 1, "SharedList, worker server"),
    "ours-ranks": ("ours", "spawn", 2, "two ranks, SharedList by st.once"),
}


def main(words: list[str]) -> None:
    name, count = words[0], int(words[1])
    path = words[2] if len(words) > 2 else None
    if name == "empty":  # Python with NumPy only
        _report_roles({os.getpid(): "empty"}, None)
    else:
        _run(name, count, path)


if __name__ == "__main__":
    main(sys.argv[1:])
