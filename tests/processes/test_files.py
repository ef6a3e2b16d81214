"""Storages of files: the handle contains the path, and writes of every process reach the file."""

from __future__ import annotations

import numpy as np

import shmtensor as st
from tests.helpers.children import running
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
    with running(ctx, write_through, inbox, outbox):
        inbox.put([tensor, storage])
        assert take(outbox) == (True, str(path), False)
    tensor[2] = 77
    assert np.fromfile(path, np.int64).tolist() == [0, 99, 77, 3]


def test_read_only_file_arrives_read_only(ctx, tmp_path) -> None:
    path = tmp_path / "data"
    np.arange(4, dtype=np.int64).tofile(path)
    path.chmod(0o400)
    storage = st.Storage.from_file(path, readonly=True)
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    with running(ctx, write_through, inbox, outbox):
        inbox.put([st.Tensor(storage, np.int64, 4), storage])
        assert take(outbox) == (True, str(path), True)
