"""Libraries that use the driver exchange memory with shmtensor, on the simulated driver."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device
from tests.integrations.cuda_clients import CLIENTS, INSTALLED, Child, host

VALUES = np.arange(100, dtype="u1")
LARGE = np.arange(3 << 20, dtype="u1")  # has an allocation of its own


@pytest.fixture(params=INSTALLED)
def run(request, simulated_driver):
    """Run a function of this module with the library, in a new process."""

    def run(function) -> None:
        call = f"from {__name__} import {function.__name__} as f"
        simulated_driver.run(f"{call}\nif __name__ == '__main__': f({request.param!r})")

    return run


def in_one_process(name: str) -> None:
    client = CLIENTS[name]()
    for values in (VALUES, LARGE):
        array = client.make(values)
        tensor = st.asarray(array, copy=False)
        assert tensor.data_ptr() == client.address(array)
        assert np.array_equal(host(tensor), values)
        tensor.copy_(tensor.cpu().numpy() + 1)
        assert np.array_equal(client.read(array), values + 1)
        own = st.asarray(values, device="cuda")
        for factor, how in zip((2, 4), client.views, strict=False):
            view = client.view(own, how)
            assert client.address(view) == own.data_ptr()
            client.write(view, client.read(view) * 2)
            assert np.array_equal(host(own), values * factor)
        event, stream = st.cuda.Event(), client.stream()
        event.record(stream)
        client.finish(stream)
        assert event.query()


def test_arrays_are_shared_in_one_process(run) -> None:
    run(in_one_process)


def between_processes(name: str) -> None:
    client = CLIENTS[name]()
    child = Child(name)
    for sync in ("host", "event"):
        st.cuda.set_sync(sync)
        for values in (VALUES, LARGE):
            array = client.make(values)
            tensor = st.asarray(array, copy=False)
            own = st.asarray(values, device="cuda")
            expected = values
            for how in client.views:
                for shared in (tensor, own):
                    same, found = child.ask("double", shared, how)
                    assert same, how
                    assert np.array_equal(found, expected)
                    assert np.array_equal(host(shared), expected * 2)
                assert np.array_equal(client.read(array), expected * 2)
                expected = expected * 2
    child.end()


def test_arrays_are_shared_between_processes(run) -> None:
    run(between_processes)


def by_handles(name: str) -> None:
    """The library's own handles work beside shmtensor's, which opens the same allocation."""
    client = CLIENTS[name]()
    child = Child(name)
    array = client.make(LARGE)
    tensor = st.asarray(array, copy=False)
    values, copy, same, refused, after = child.ask("open", client.export(array), tensor)
    for found in (values, copy, after):
        assert np.array_equal(found, LARGE)
    assert same is not name.startswith("core"), "a pool's buffer is a copy"
    assert "without a copy" in refused
    event = st.cuda.Event()
    event.record()
    assert child.ask("wait", event)
    if hasattr(client, "export_event"):
        kept, exported = client.export_event()
        assert child.ask("wait_for", exported) == "done"
        del kept
    child.end()


def test_handles_of_the_library_work_beside(run) -> None:
    run(by_handles)


def frees_arrays(name: str) -> None:
    """The last reference to a shared array is released by the thread of shmtensor, and by this one."""
    client = CLIENTS[name]()
    free_idle = getattr(client, "free_idle", gc.collect)
    for collect in (gc.collect, st.cuda.ipc_collect):
        array = client.make(LARGE)
        before = device.used_bytes()
        tensor = st.asarray(array, copy=False)
        end = weakref.ref(array)
        del array, tensor
        collect()
        device.wait_until(lambda end=end: end() is None, "the array")
        free_idle()
        device.wait_until(lambda before=before: (device.used_bytes() < before) is client.frees, "its memory")


def test_shared_arrays_are_freed(run) -> None:
    run(frees_arrays)


def after_kills(name: str) -> None:
    client = CLIENTS[name]()
    producer = Child(name)
    tensor = producer.ask("produce", LARGE)
    producer.put(("produce", LARGE))  # its message stays unread
    device.wait_until(producer.outbox._reader.poll, "the second array")
    producer.kill()
    assert np.array_equal(client.read(client.view(tensor, "cai")), LARGE)
    if client.outlives:
        assert np.array_equal(host(producer.get()[1]), LARGE)
    else:
        with pytest.raises(st.ProducerGone):
            producer.get()

    consumer = Child(name)
    array = client.make(LARGE)
    assert np.array_equal(consumer.ask("hold", st.asarray(array, copy=False)), LARGE)
    end = weakref.ref(array)
    del array
    gc.collect()
    assert end() is not None, "another process has the array"
    consumer.kill()
    device.wait_until(lambda: end() is None, "the end of the array")


def test_killed_processes_lose_no_memory(run) -> None:
    run(after_kills)
