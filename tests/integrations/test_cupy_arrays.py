"""`st.install("cupy")`: CuPy's arrays travel through queues, pipes and pools; on the simulated driver."""

from __future__ import annotations

import functools
import gc
import io
import multiprocessing
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._core import storage_at
from shmtensor.integrations._tables import REDUCERS
from tests.cuda import device, workers
from tests.cuda.harness import SIMULATORS
from tests.helpers.queues import take

BIG = 50_000  # elements of 4 bytes


@pytest.fixture
def run(run_main):
    """Run a function of this module in a new process, with the integration."""
    return functools.partial(run_main, first="import shmtensor as st; st.install('cupy')")


def is_shared(array: Any) -> bool:
    return storage_at(array.data.ptr, array.nbytes) is not None


def blocks() -> int:
    gc.collect()
    return st.stats()["blocks"]


def private(size: int = BIG) -> Any:
    import cupy

    return cupy.asarray(np.arange(size, dtype="f4"))


def add_one(inbox: Any, outbox: Any) -> None:
    """Change each received array, and send it back."""
    while (array := inbox.get()) is not None:
        array.set(array.get() + 1)
        outbox.put((is_shared(array), array))


def through_queues() -> None:
    pair = workers.Pair(add_one)
    array = private()
    pair.put(array)
    there, back = pair.get()
    assert there
    assert is_shared(back)
    assert back.get()[:3].tolist() == [1, 2, 3]
    assert array.get()[:3].tolist() == [0, 1, 2], "a copy was sent"
    before = st.stats()["bytes_live"]
    pair.put(back[10:])
    there, part = pair.get()
    assert there
    assert part.data.ptr == back.data.ptr + 40, "it is the same memory"
    assert back.get()[9:12].tolist() == [10, 12, 13]
    assert st.stats()["bytes_live"] < before + part.nbytes, "at most small blocks of events were added"
    for tensor in (st.zeros(BIG, "f4", device="cuda"), st.asarray(array, copy=False)):
        pair.put(tensor.cupy())
        there, back = pair.get()
        assert back.data.ptr == tensor.data_ptr()
        assert tensor[:2].tolist() == back.get()[:2].tolist()
    assert array.get()[:3].tolist() == [1, 2, 3], "memory of CuPy, shared in place"
    pair.put(private(10))
    there, back = pair.get()
    assert not there
    assert not is_shared(back), "a small one is a part of the message"
    assert back.get().tolist() == list(range(1, 11))
    pair.end()


def test_arrays_travel_through_queues(run) -> None:
    run(through_queues)


def test_arrays_travel_after_events(run) -> None:
    run(by_event)


def by_event() -> None:
    st.cuda.set_sync("event")
    through_queues()


def forward(inbox: Any, outbox: Any, onward: Any) -> None:
    array = inbox.get()
    onward.put(array)
    outbox.put(array.get()[:2].tolist())
    inbox.get()


def through_third() -> None:
    """A received array over memory of CuPy in another process is sent on without a copy."""
    inbox, outbox, onward = (workers.SPAWN.SimpleQueue() for _ in range(3))
    middle = workers.SPAWN.Process(target=forward, args=(inbox, outbox, onward), daemon=True)
    middle.start()
    last = workers.Pair(add_one)
    array = private()
    inbox.put(st.asarray(array, copy=False).cupy())
    assert take(outbox, workers.TIMEOUT) == [0, 1]
    passed = take(onward, workers.TIMEOUT)
    assert passed.data.ptr == array.data.ptr
    last.put(passed)
    assert last.get()[1].data.ptr == array.data.ptr
    assert array.get()[:3].tolist() == [1, 2, 3]
    last.end()
    inbox.put(None)
    middle.join(workers.TIMEOUT)


def test_received_array_is_sent_on(run) -> None:
    run(through_third)


def halve(array: Any) -> Any:
    array.set(array.get() / 2)
    return array


def elsewhere() -> None:
    """Pools, pipes, arguments, and multiprocessing itself."""
    array = private()
    for context in (mp.get_context("spawn"), multiprocessing.get_context("spawn")):
        half, total, first, second = workers.send_around(context, array, halve, put_sum)
        assert is_shared(half)
        assert half.get()[:3].tolist() == [0, 0.5, 1]
        assert total == array.get().sum()
        assert first.data.ptr != array.data.ptr
        assert second.data.ptr == half.data.ptr


def put_sum(array: Any, outbox: Any) -> None:
    outbox.put(float(array.get().sum()))


def test_arrays_travel_in_pools_pipes_and_arguments(run) -> None:
    run(elsewhere)


def by_cupy() -> None:
    """What CuPy pickles itself, and files, have the bytes."""
    import cupy

    points = np.zeros(BIG, [("x", "i4"), ("y", "f4")])
    for array in (cupy.asarray(points), cupy.empty((0, 3), "f4"), private(100)):
        back = pickle.loads(ForkingPickler.dumps(array))
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert not is_shared(back)
    shared = st.zeros(BIG, "f4", device="cuda").cupy()
    assert not is_shared(pickle.loads(pickle.dumps(shared)))
    assert not is_shared(st.SharedList([shared])[0])
    file = io.BytesIO()
    pickler = pickle.Pickler(file)
    pickler.dispatch_table = REDUCERS  # as joblib, loky and multiprocess
    pickler.dump(shared)
    assert pickle.loads(file.getvalue()).data.ptr == shared.data.ptr
    st.uninstall("cupy")
    assert not is_shared(pickle.loads(ForkingPickler.dumps(shared)))
    st.install("cupy")
    assert pickle.loads(ForkingPickler.dumps(shared)).data.ptr == shared.data.ptr


def test_other_arrays_and_pickles_have_the_bytes(run) -> None:
    run(by_cupy)


def layouts() -> None:
    import cupy

    shared = st.asarray(np.arange(60_000, dtype="f8").reshape(30, 40, 50), device="cuda").cupy()
    mine = cupy.asarray(shared.get())
    for part in (lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a[..., 3], lambda a: a[4, 5, 6]):
        back = pickle.loads(ForkingPickler.dumps(part(shared)))
        assert (back.data.ptr, back.strides) == (part(shared).data.ptr, part(shared).strides)
    for part in (lambda a: a.T, lambda a: a[::2, ::-1]):
        back = pickle.loads(ForkingPickler.dumps(part(mine)))
        assert is_shared(back)
        assert np.array_equal(back.get(), part(shared.get()))


def test_layouts_are_kept_over_shared_memory_and_copied_from_private(run) -> None:
    run(layouts)


def by_name() -> None:
    st.publish("weights", {"a": st.zeros(BIG, "f4", device="cuda").cupy(), "b": private()})
    one, other = st.attach("weights"), st.attach("weights")
    for name in ("a", "b"):
        assert one[name].data.ptr == other[name].data.ptr
    assert one["b"].get()[:3].tolist() == [0, 1, 2]
    st.unpublish("weights")


def test_arrays_are_published(run) -> None:
    run(by_name)


def after_kills() -> None:
    keep = st.zeros(1, device="cuda")
    before = blocks()
    pair = workers.Pair(add_one)
    pair.put(private())
    there, back = pair.get()
    pair.put(private())
    device.wait_until(pair.outbox._reader.poll, "the second array")
    pair.kill()
    assert back.get()[:2].tolist() == [1, 2]
    there, back = pair.get()
    assert there
    assert back.get()[:2].tolist() == [1, 2], "the message outlives its sender"
    pair.put(private())  # no process reads it
    del pair, back
    device.wait_until(lambda: blocks() == before, "the arrays of the killed process")
    del keep


def test_killed_processes_lose_no_memory(run) -> None:
    run(after_kills)


def two_devices() -> None:
    import cupy

    with cupy.cuda.Device(1):
        array = private()
    pair = workers.Pair(add_one)
    for sent in (array, st.zeros(BIG, "f4", device="cuda:1").cupy()):
        pair.put(sent)
        there, back = pair.get()
        assert there
        assert back.device.id == 1
    pair.end()


def test_array_stays_on_its_device(run) -> None:
    run(two_devices, SHMTENSOR_SIM_DEVICES="2")


def without_virtual_memory() -> None:
    back = pickle.loads(ForkingPickler.dumps(private()))
    assert not is_shared(back)
    assert back.get()[:3].tolist() == [0, 1, 2]


def test_array_goes_cupys_way_where_memory_cannot_be_shared(run, tmp_path) -> None:
    (tmp_path / "libcuda.so.1").unlink()
    (tmp_path / "libcuda.so.1").symlink_to(SIMULATORS / "libcuda-bare.so.1")
    run(without_virtual_memory)
