"""How long the blocks of Dask's messages stay allocated, in one process with both ends of a connection."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator

import dask
import numpy as np
import pytest
from distributed.comm import CommClosedError, connect, listen
from distributed.protocol import to_serialize

import shmtensor as st
from shmtensor import _core
from shmtensor.integrations._dask import membership
from shmtensor.integrations._dask.link import Link

KEY = "shmtensor"


def blocks() -> int:
    return st.stats()["blocks"]


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    st.install("dask")
    yield
    st.uninstall("dask")


def message() -> list[memoryview]:
    return [memoryview(b"head"), memoryview(np.ones(100_000))]


def test_block_is_kept_until_the_other_end_has_read_it() -> None:
    sender, receiver = Link(), Link()
    frames = sender.shorten(message())
    early = receiver.shorten([memoryview(b"not an answer")])
    sender.restore(early)
    assert sender.has_unread()
    frames = receiver.restore(frames)
    assert bytes(frames[1]) == np.ones(100_000).tobytes()
    del frames
    assert blocks() == 2  # the array, and whether it was read
    sender.shorten([memoryview(b"next")])
    assert blocks() == 0
    assert not sender.has_unread()


def test_message_that_was_not_sent_keeps_no_other_one() -> None:
    """Dask serializes a message in a task, which may be cancelled."""
    sender, receiver = Link(), Link()
    sender.shorten(message())
    receiver.restore(sender.shorten(message()))
    assert sender.has_unread()
    assert blocks() == 2
    sender.close()
    assert blocks() == 0


def test_closed_end_releases_and_its_message_is_truncated() -> None:
    sender, receiver = Link(), Link()
    frames = sender.shorten(message())
    sender.close()
    assert blocks() == 0
    with pytest.raises(EOFError):
        receiver.restore(frames)
    sender.shorten(message())
    assert blocks() == 0


def test_message_that_is_loaded_twice_is_the_same_memory() -> None:
    sender, receiver = Link(), Link()
    frames = sender.shorten(message())
    first, second = (np.frombuffer(receiver.restore(list(frames))[1]) for _ in range(2))
    first[0] = 7
    assert second[0] == 1
    sender.close()
    assert blocks() == 1
    del first, second
    assert blocks() == 0


def test_handles_need_no_ticket() -> None:
    link = Link()
    frames = link.shorten(message())
    assert st.stats()["in_flight"] == 0
    assert len(frames[-1]) < 300
    del link
    assert blocks() == 0
    with pytest.raises(st.StaleHandleError), _core.ReadScope():
        pickle.loads(frames[-1])


def test_process_that_cannot_map_a_message_agrees_on_no_more(monkeypatch) -> None:
    def fail(_frame) -> None:
        raise OSError(12, "no address space")

    monkeypatch.setattr("shmtensor.integrations._dask.link.load_message", fail)
    monkeypatch.setattr(membership, "_withdrawn", False)
    frames = Link().shorten(message())
    assert membership.proof() is not None
    with pytest.raises(EOFError):
        Link().restore(frames)
    assert membership.proof() is None


def test_message_that_has_no_room_in_shared_memory_is_sent_as_bytes(caplog) -> None:
    array = np.empty(1 << 27)
    st.set_limit(4 << 20)
    try:
        frames = Link().shorten([memoryview(b"head"), memoryview(array)])
    finally:
        st.set_limit(None)
    assert sum(memoryview(frame).nbytes for frame in frames) > array.nbytes
    assert blocks() == 0
    [record] = caplog.records
    assert record.getMessage().startswith("Dask sends 1073741824 bytes without shared memory: ")


async def pair(**options):
    """Return both ends of a connection, and the listener."""
    accepted: asyncio.Queue = asyncio.Queue()
    listener = await listen("tcp://127.0.0.1", accepted.put, **options)
    first = await connect(listener.contact_address)
    return first, await accepted.get(), listener


def run(program) -> None:
    asyncio.run(asyncio.wait_for(program(), 30))


def test_connection_whose_other_end_is_closed_holds_nothing() -> None:
    async def program() -> None:
        first, second, listener = await pair()
        assert KEY in first.handshake_options
        assert KEY in second.handshake_options
        await first.write({"data": to_serialize(np.ones(100_000))})
        assert blocks() == 2  # one is whether the message was read
        second.abort()
        with pytest.raises(OSError, match="close"):
            await first.read()
        await asyncio.sleep(0.1)  # Tornado calls back in a later turn of the loop
        assert blocks() == 0  # though `first` is still referred to
        first.abort()
        listener.stop()

    run(program)


def test_message_before_a_clean_close_arrives() -> None:
    async def program() -> None:
        first, second, listener = await pair()
        await first.write({"data": to_serialize(np.arange(100_000.0))})
        closing = first.close()
        assert first.closed()
        await asyncio.sleep(0.1)
        assert ((await second.read())["data"] == np.arange(100_000.0)).all()
        await closing
        assert blocks() == 0
        with pytest.raises(CommClosedError):
            await second.read()
        listener.stop()

    run(program)


def test_clean_close_does_not_wait_for_an_end_that_is_closed() -> None:
    async def program() -> None:
        first, second, listener = await pair()
        await first.write({"data": to_serialize(np.ones(100_000))})
        with dask.config.set({"distributed.comm.timeouts.tcp": "1h"}):
            closing = first.close()
        second.abort()
        await closing
        assert blocks() == 0
        listener.stop()

    run(program)


def test_clean_close_waits_no_longer_than_tcp() -> None:
    async def program() -> None:
        first, second, listener = await pair()
        await first.write({"data": to_serialize(np.ones(100_000))})
        with dask.config.set({"distributed.comm.timeouts.tcp": "10ms"}):
            await first.close()
        assert blocks() == 0
        with pytest.raises(CommClosedError):
            await second.read()
        listener.stop()

    run(program)


def test_scheduler_gets_bytes_and_sends_bytes() -> None:
    """An end that does not deserialize, in this process or another one of the session."""

    async def program() -> None:
        first, second, listener = await pair(deserialize=False)
        assert KEY not in first.handshake_options
        assert KEY not in second.handshake_options
        array = np.arange(100_000.0)
        await first.write({"data": to_serialize(array)})
        forwarded = await second.read()
        assert blocks() == 0
        await second.write(forwarded)
        assert ((await first.read())["data"] == array).all()
        for end in (first, second):
            end.abort()
        listener.stop()

    run(program)


def test_open_connection_stays_usable_after_uninstall() -> None:
    async def program() -> None:
        first, second, listener = await pair()
        st.uninstall("dask")
        for writer, reader in ((first, second), (second, first)):
            await writer.write({"data": to_serialize(np.arange(100_000.0))})
            assert ((await reader.read())["data"] == np.arange(100_000.0)).all()
        for end in (first, second):
            end.abort()
        listener.stop()
        first, second, listener = await pair()
        assert KEY not in first.handshake_options
        assert KEY not in second.handshake_options
        for end in (first, second):
            end.abort()
        listener.stop()

    run(program)
