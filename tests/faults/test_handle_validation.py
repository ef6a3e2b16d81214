"""Promise 10: a handle that is stale, damaged, forged or cut short raises, and loses nothing."""

from __future__ import annotations

import pickle
import random
from multiprocessing.reduction import ForkingPickler

import pytest

import shmtensor as st
from shmtensor import _core, reducers
from tests.helpers.children import manager_pids, run_python, wait_until
from tests.helpers.live_resources import assert_no_leaks, live_resources


def handle_of(tensor: st.Tensor) -> bytes:
    """Return the bytes of the handle, which carry a ticket."""
    function, (content,) = _core.reduce_tensor(tensor)
    assert function is reducers.rebuild_tensor
    return content


def test_every_flipped_handle_bit_is_detected(strategy) -> None:
    tensor = st.ones((3, 4))[:, ::2]
    content = handle_of(tensor)
    before = live_resources()
    for bit in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(st.StaleHandleError):
            reducers.rebuild_tensor(bytes(damaged))
    assert live_resources() == before, "only the ticket is left"
    assert reducers.rebuild_tensor(content).tolist() == tensor.tolist()


def test_every_handle_truncation_and_extension_is_detected(strategy) -> None:
    content = handle_of(st.ones((3, 4))[:, ::2])
    before = live_resources()
    for size in range(len(content)):
        with pytest.raises(st.StaleHandleError):
            reducers.rebuild_tensor(content[:size])
    for extra in (b"\0", bytes(8), content):
        with pytest.raises(st.StaleHandleError):
            reducers.rebuild_tensor(content + extra)
    assert live_resources() == before
    assert reducers.rebuild_tensor(content).shape == (3, 2)


def test_random_bytes_are_rejected_as_handle(strategy) -> None:
    rng = random.Random(1)
    st.ones(1)
    with assert_no_leaks():
        for _ in range(2000):
            with pytest.raises(st.StaleHandleError):
                reducers.rebuild_tensor(rng.randbytes(rng.randrange(200)))


@pytest.mark.parametrize("what", [None, 1, "text", bytearray(80), memoryview(bytes(80))])
def test_other_objects_are_rejected_as_handle(what) -> None:
    with pytest.raises(TypeError, match="bytes"):
        reducers.rebuild_tensor(what)


def test_handle_of_reused_block_is_stale(strategy) -> None:
    """The record has the next generation: the handle never gives another tensor's bytes."""
    tensor = st.full(100, 1.0)
    content = handle_of(tensor)
    address = tensor.data_ptr()
    reducers.rebuild_tensor(content)  # consumes the ticket
    del tensor
    others = [st.full(100, 2.0) for _ in range(3)]
    assert address in [other.data_ptr() for other in others], "the memory is reused"
    before = live_resources()
    for _ in range(3):
        with pytest.raises(st.StaleHandleError, match="was freed"):
            reducers.rebuild_tensor(content)
    assert live_resources() == before
    assert all((other.numpy() == 2).all() for other in others)


def test_handle_loaded_twice_gives_one_storage(strategy) -> None:
    message = ForkingPickler.dumps(st.full(5, 3.0))
    first, second = pickle.loads(message), pickle.loads(message)
    assert first.storage() is second.storage()
    del first
    third = pickle.loads(message)
    assert third.storage() is second.storage()


SENDER = """
    import shmtensor as st
    from shmtensor import _core
    tensor = st.ones(10)
    print(st.stats()["session"], _core.reduce_tensor(tensor)[1][0].hex())
    """


@pytest.mark.thorough
def test_handle_of_ended_session_is_stale() -> None:
    """The message is kept in a file after the end of the sender's session."""
    session, handle = run_python(SENDER).stdout.split()
    content = bytes.fromhex(handle)
    wait_until(lambda: not manager_pids(session), what="the session to end")
    with assert_no_leaks(), pytest.raises(st.StaleHandleError, match="has ended"):
        reducers.rebuild_tensor(content)
