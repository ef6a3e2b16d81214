"""A user's program, for type checkers; it is never run. `make lint` checks it.

An expected error is ignored by its name; an ignored error that does not occur is an error, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import shared_memory
from shmtensor.multiprocessing.pool import ThreadPool


def work(rank: int, tensor: st.Tensor) -> float:
    tensor[rank] = 2 * tensor[0] + 1
    tensor += 1
    assert_type(tensor, st.Tensor)
    assert_type(tensor.numpy(), npt.NDArray[Any])
    assert_type(tensor.reshape(2, 3).T, st.Tensor)
    assert_type(tensor[0], st.Tensor)
    assert_type(tensor[1:, ..., None], st.Tensor)
    assert_type(next(iter(tensor)), st.Tensor)
    return float(np.asarray(tensor).sum())


def submodules() -> None:
    """Regression: they were typed as `object`, so nothing in them could be used."""
    assert_type(st.memory.process_memory().pss, int)
    assert_type(st.cuda.is_available(), bool)
    assert_type(st.doctor().ok, bool)
    queue: mp.Queue[st.Tensor] = mp.Queue(maxsize=5)
    try:
        queue.put(st.zeros(3, np.float32))
        assert_type(queue.get(timeout=1), st.Tensor)
    except st.errors.OutOfSharedMemory:
        mp.spawn(work, (st.full((2,), 1.0),), nprocs=2)


def atomic_operations(counts: st.Tensor, bins: npt.NDArray[np.int64]) -> None:
    st.atomic.add(counts, bins, 1)
    st.atomic.add(counts, (bins, [0, 1]), bins)
    st.atomic.store(counts.numpy(), (0, -1), 2.5)
    if st.atomic.compare_exchange(counts, (), 0, 1):
        assert_type(st.wait_for_change(counts, 0, 1, timeout=2), bool)
    st.atomic.add(counts, 0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def queues(numbers: st.Queue[int], broadcast: st.Broadcast[int]) -> None:
    """Regression: what they return was Any."""
    numbers.put(3)
    assert_type(numbers.get(), int)
    assert_type(numbers.get_many(5), list[int])
    assert_type(mp.SimpleQueue[str]().get(), str)
    broadcast.put(3)
    with broadcast.reader() as reader:
        assert_type(reader.get(), int)


def workers() -> None:
    """Regression: contexts were Any, and the result of `spawn` had to be checked for None."""
    context = mp.get_context("server")
    with context.Pool(2) as pool:
        pool.map(abs, [1])
    context.Process(target=work).start()
    assert_type(mp.spawn(work, nprocs=2, join=False), mp.ProcessContext)
    assert_type(mp.start_processes(work, (), 2, False), mp.ProcessContext)
    assert mp.spawn(work).results()  # type: ignore[attr-defined]


def submodules_of_the_standard_library() -> ThreadPool:
    assert_type(shared_memory.SharedMemory(size=5).name, str)
    return ThreadPool(2)


def containers(numbers: st.SharedDict[int], items: st.SharedList[str]) -> None:
    """They are accepted where the standard library's are."""
    mapping: Mapping[str, int] = numbers
    sequence: Sequence[str] = items
    assert_type(numbers["a"], int)
    assert_type(items[0], str)
    assert_type(items[1:], st.SharedList[str])
    assert_type(items[np.array([0])], st.SharedList[str])
    assert_type(items[[0, 2]], st.SharedList[str])
    assert_type(items[st.asarray([0, 2])], st.SharedList[str])
    assert len(mapping) == len(sequence)


def double(tensor: st.Tensor) -> int:
    tensor *= 2
    return tensor.size


def a_whole_program(path: str) -> None:
    """Every name is typed: pyright refuses a part that is unknown."""
    st.install("torch")
    st.set_limit(1 << 30)
    weights = st.load(path)
    both = st.stack([weights, st.arange(3)])
    whole = st.concatenate([both, st.zeros_like(both)], axis=0)
    copied = st.from_numpy(np.ones(3)).share_memory_().clone().to("cuda:0").cpu()
    assert_type(st.concatenate([both], out=copied.numpy()), npt.NDArray[Any])
    assert_type(copied, st.Tensor)
    assert_type(whole.dtype, np.dtype[Any])
    assert_type(whole.storage().nbytes, int)
    assert_type(st.Storage.from_file(path, readonly=True), st.Storage)
    with whole, mp.Pool(2) as pool:
        assert_type(pool.map(double, [whole, copied]), list[int])
        assert_type(pool.apply_async(double, (whole,)).get(timeout=5), int)
    st.publish("weights", copied)
    st.unpublish("weights")
    assert_type(st.once("table", lambda: [1.5]), list[float])
    assert_type(st.share({"a": 1}), dict[str, int])
    counters = st.stats()
    assert_type(counters["bytes_live"], int)
    assert_type(counters["session"], str | None)
    assert_type(st.gc(older_than=5.0), int)
    monitor = st.memory.MemoryMonitor()
    assert_type(monitor.measure()[1].tensors, int)
    for finding in st.doctor():
        assert_type(finding.text, str)
    reader, writer = mp.Pipe(duplex=False)
    writer.send(whole)
    reader.close()
    try:
        mp.spawn(work, (whole,), nprocs=2)
    except mp.ProcessRaisedException as error:
        assert_type(error.error_pid, int)


async def loops(queue: st.Queue[st.Tensor]) -> None:
    tensor = await queue.aget()
    await queue.aput(tensor)
    for one in queue:
        assert_type(one, st.Tensor)


def mistakes(tensor: st.Tensor) -> None:
    st.zeroes(3)  # type: ignore[attr-defined]
    tensor.sum()  # type: ignore[attr-defined]
    st.SharedList([1]).append(2)  # type: ignore[attr-defined]
