"""Storages of files: the handle contains the path, and writes of every process reach the file."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end
from tests.helpers.queues import take


def write_through(inbox, outbox) -> None:
    tensor, storage = inbox.get()
    outbox.put((tensor.storage() is storage, storage.filename, tensor.readonly))
    if not tensor.readonly:
        tensor[1] = 99


def test_writes_of_every_process_reach_the_file(ctx, tmp_path) -> None:
    path = tmp_path / "data"
    np.arange(4, dtype=np.int64).tofile(path)
    storage = st.Storage.from_file(path)
    tensor = st.Tensor(storage, np.int64, 4)
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    process = ctx.Process(target=write_through, args=(inbox, outbox))
    process.start()
    inbox.put([tensor, storage])
    assert take(outbox) == (True, str(path), False)
    end(process)
    tensor[2] = 77
    assert np.fromfile(path, np.int64).tolist() == [0, 99, 77, 3]
    inbox.close()
    outbox.close()


def test_read_only_file_arrives_read_only(ctx, tmp_path) -> None:
    path = tmp_path / "data"
    np.arange(4, dtype=np.int64).tofile(path)
    path.chmod(0o400)
    storage = st.Storage.from_file(path, readonly=True)
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    process = ctx.Process(target=write_through, args=(inbox, outbox))
    process.start()
    inbox.put([st.Tensor(storage, np.int64, 4), storage])
    assert take(outbox) == (True, str(path), True)
    end(process)
    inbox.close()
    outbox.close()


def test_put_and_get_in_one_process_share_one_storage(tmp_path) -> None:
    storage = st.Storage.from_file(tmp_path / "new", nbytes=100)
    assert os.path.getsize(tmp_path / "new") == 100
    queue = mp.SimpleQueue()
    queue.put(storage)
    assert take(queue) is storage
    queue.close()


def test_replaced_file_is_not_read(tmp_path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(100))
    queue = mp.SimpleQueue()
    storage = st.Storage.from_file(path)
    queue.put(storage)
    del storage
    path.rename(tmp_path / "old")
    path.write_bytes(b"\1" * 100)
    with pytest.raises(st.StaleHandleError, match="replaced"):
        take(queue)
    queue.put("next")
    assert take(queue) == "next"
    queue.close()


def test_file_storages_need_no_session_and_no_ticket(tmp_path) -> None:
    before = st.stats()
    storage = st.Storage.from_file(tmp_path / "new", nbytes=4096)
    reader, writer = multiprocessing.Pipe(duplex=False)
    writer.send(storage)
    after = st.stats()
    assert (after["in_flight"], after["blocks"]) == (before["in_flight"], before["blocks"])
    assert len(reader.recv()) == 4096
    reader.close()
    writer.close()
