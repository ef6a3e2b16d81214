"""File storages are sent by path and identity: the receiver gets the same file, or StaleHandleError."""

from __future__ import annotations

import os
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest

import shmtensor as st
from tests.helpers.live_resources import live_resources


@pytest.fixture
def path(tmp_path) -> str:
    file = tmp_path / "data.bin"
    file.write_bytes(bytes(range(100)))
    return str(file)


def send(obj):
    return pickle.loads(ForkingPickler.dumps(obj))


@pytest.mark.parametrize("readonly", [True, False])
def test_file_handle_gives_same_storage_while_it_lives(path, readonly) -> None:
    before = live_resources()
    storage = st.Storage.from_file(path, readonly=readonly)
    assert send(storage) is storage
    tensor = st.Tensor(storage, ">i2", (3, 2), (-4, 2), 8, True)
    back = send(tensor)
    assert back.storage() is storage
    assert (back.dtype, back.shape, back.strides, back.storage_offset()) == (">i2", (3, 2), (-4, 2), 8)
    assert back.readonly
    assert live_resources() == before, "it takes no block and no ticket"


@pytest.mark.parametrize("readonly", [True, False])
def test_file_is_mapped_again_after_storage_is_freed(path, readonly) -> None:
    content = ForkingPickler.dumps(st.Tensor(st.Storage.from_file(path, readonly=readonly), "u1", (10, 10)))
    for _ in range(2):
        tensor = pickle.loads(content)
        assert tensor.storage().filename == path
        assert tensor.readonly is readonly
        assert tensor.numpy().tobytes() == bytes(range(100))
        del tensor


def test_writes_reach_the_file_and_every_holder(path) -> None:
    content = ForkingPickler.dumps(st.Storage.from_file(path, nbytes=50))
    storage = pickle.loads(content)
    whole = st.Storage.from_file(path)
    storage.fill_(9)
    assert whole.tobytes() == b"\x09" * 50 + bytes(range(50, 100))


def test_handle_of_replaced_file_is_stale(path) -> None:
    content = ForkingPickler.dumps(st.Storage.from_file(path))
    os.rename(path, path + ".old")
    with open(path, "wb") as file:
        file.write(bytes(100))
    with pytest.raises(st.StaleHandleError, match=f"{path} was replaced"):
        pickle.loads(content)
    assert os.path.getsize(path) == 100


def test_handle_of_removed_file_is_stale_unless_mapped(path) -> None:
    storage = st.Storage.from_file(path)
    content = ForkingPickler.dumps(storage)
    os.unlink(path)
    assert pickle.loads(content) is storage
    del storage
    with pytest.raises(st.StaleHandleError, match=f"{path} is gone"):
        pickle.loads(content)
    assert not os.path.exists(path), "a missing file is not made"


def test_handle_of_truncated_file_is_stale(path) -> None:
    content = ForkingPickler.dumps(st.Storage.from_file(path))
    os.truncate(path, 10)
    with pytest.raises(st.StaleHandleError, match=f"{path} has shrunk from 100 to 10 bytes"):
        pickle.loads(content)
    assert os.path.getsize(path) == 10


def test_handle_of_non_utf8_path_round_trips(tmp_path) -> None:
    storage = st.Storage.from_file(tmp_path / os.fsdecode(b"\xff"), nbytes=10)
    content = ForkingPickler.dumps(storage)
    assert pickle.loads(content) is storage
    del storage
    assert pickle.loads(content).nbytes == 10


def test_plain_pickle_copies_file_bytes(path) -> None:
    storage = st.Storage.from_file(path)
    back = pickle.loads(pickle.dumps(storage))
    assert (back.filename, back.is_shared(), back.tobytes()) == (None, False, bytes(range(100)))


def test_share_memory_leaves_file_storage_unchanged(path) -> None:
    storage = st.Storage.from_file(path)
    assert storage.share_memory_() is storage
    assert storage.filename == path
    assert storage.clone().filename is None
