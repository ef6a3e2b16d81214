"""Storage.from_file: mapping or reading, creating or extending, one object per file, clear errors."""

from __future__ import annotations

import errno
import os
import threading
from functools import partial

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.live_resources import live_resources
from tests.helpers.threads import DEADLINE, run_together


@pytest.fixture
def path(tmp_path) -> str:
    file = tmp_path / "data.bin"
    file.write_bytes(bytes(range(100)))
    return str(file)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_shared_mapping_writes_to_the_file(path) -> None:
    before = live_resources()
    storage = st.Storage.from_file(path)
    assert (storage.nbytes, storage.is_shared(), storage.readonly, storage.filename) == (
        100,
        True,
        False,
        path,
    )
    st.Tensor(storage, "u1", 3, offset=10).fill_(255)
    assert read(path) == bytes(range(10)) + b"\xff" * 3 + bytes(range(13, 100))
    assert live_resources() == before, "it takes no block"


def test_mapping_shows_writes_of_others(path) -> None:
    storage = st.Storage.from_file(path, readonly=True)
    with open(path, "r+b") as file:
        file.write(b"new")
    assert storage.tobytes()[:4] == b"new\3"


def test_private_file_storage_is_a_copy(path) -> None:
    storage = st.Storage.from_file(path, shared=False)
    assert (storage.nbytes, storage.is_shared(), storage.readonly, storage.filename) == (
        100,
        False,
        False,
        None,
    )
    storage.fill_(0)
    assert read(path) == bytes(range(100))
    assert st.Storage.from_file(path, shared=False, nbytes=10).tobytes() == bytes(range(10))
    assert st.Storage.from_file(path, shared=False, readonly=True).readonly


def test_readonly_mapping_rejects_writes(path) -> None:
    storage = st.Storage.from_file(path, readonly=True)
    assert (storage.is_shared(), storage.readonly) == (True, True)
    assert memoryview(storage).readonly
    with pytest.raises(ValueError, match="read-only"):
        storage.fill_(0)
    assert st.Tensor(storage, "u1", 100).readonly
    assert repr(storage) == f"<Storage of 100 bytes on cpu, shared, read-only, file {path!r}>"


def test_unwritable_file_can_be_mapped_readonly(path) -> None:
    os.chmod(path, 0o444)
    assert st.Storage.from_file(path, readonly=True).nbytes == 100
    if os.geteuid() != 0:  # root may do anything
        with pytest.raises(PermissionError, match=path):
            st.Storage.from_file(path)


def test_mapping_may_cover_only_first_bytes(path) -> None:
    assert st.Storage.from_file(path, nbytes=10).tobytes() == bytes(range(10))
    assert st.Storage.from_file(path, True, np.int64(10), readonly=True).nbytes == 10


def test_file_is_created_and_extended(tmp_path) -> None:
    path = tmp_path / "new.bin"
    storage = st.Storage.from_file(path, nbytes=5000)
    assert storage.tobytes() == bytes(5000)
    assert path.stat().st_size == 5000
    storage.fill_(7)
    longer = st.Storage.from_file(path, nbytes=6000)
    assert longer.tobytes() == b"\7" * 5000 + bytes(1000)
    assert path.stat().st_size == 6000


def test_same_file_size_and_access_share_one_storage(path) -> None:
    link = path + ".link"
    os.link(path, link)
    storage = st.Storage.from_file(path)
    assert st.Storage.from_file(path) is storage
    assert st.Storage.from_file(os.path.relpath(path)) is storage
    assert st.Storage.from_file(link) is storage
    others = [st.Storage.from_file(path, readonly=True), st.Storage.from_file(path, nbytes=50)]
    assert all(other is not storage for other in others)
    storage.fill_(3)
    assert all(set(other.tobytes()) == {3} for other in others)


@pytest.mark.thorough
def test_threads_that_map_a_file_together_share_one_storage(tmp_path) -> None:
    paths = [tmp_path / str(number) for number in range(1000)]
    for path in paths:
        path.write_bytes(b"content")
    barrier = threading.Barrier(3)

    def map_files(storages: list[st.Storage]) -> None:
        for path in paths:
            barrier.wait(DEADLINE)
            storages.append(st.Storage.from_file(path))

    found: list[list[st.Storage]] = [[], [], []]
    run_together(*(partial(map_files, storages) for storages in found))
    assert all(first is second is third for first, second, third in zip(*found, strict=True))


def test_file_is_unmapped_with_last_reference(path) -> None:
    def mapped() -> bool:
        return path in read("/proc/self/maps").decode()

    tensor = st.Tensor(st.Storage.from_file(path), "u1", 100)
    view = memoryview(tensor[50:])
    del tensor
    assert mapped()
    assert view[0] == 50
    del view
    assert not mapped()


def test_paths_of_any_type_are_accepted(tmp_path) -> None:
    for name in ("plain", "späce and ü", os.fsdecode(b"not-utf8-\xff\xfe")):
        path = tmp_path / name
        storage = st.Storage.from_file(path, nbytes=4)
        assert storage.filename == str(path)
        assert repr(name)[1:-1] in repr(storage)
        assert path.stat().st_size == 4
        assert st.Storage.from_file(os.fsencode(path)) is storage


@pytest.mark.parametrize("shared", [True, False])
def test_null_character_does_not_end_a_path(tmp_path, shared) -> None:
    with pytest.raises(ValueError, match="null"):
        st.Storage.from_file(tmp_path / "other\0name", shared, 4)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("readonly", [True, False])
def test_missing_file_is_named(tmp_path, shared, readonly) -> None:
    path = tmp_path / "missing"
    with pytest.raises(FileNotFoundError, match=str(path)) as caught:
        st.Storage.from_file(path, shared, readonly=readonly)
    assert caught.value.errno == errno.ENOENT
    assert not path.exists()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("readonly", [True, False])
def test_directory_is_rejected(tmp_path, shared, readonly) -> None:
    with pytest.raises(OSError, match=str(tmp_path)):
        st.Storage.from_file(tmp_path, shared, readonly=readonly)


def test_empty_file_is_rejected(tmp_path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(OSError, match=r"empty, which is empty|which is empty"):
        st.Storage.from_file(path)
    assert st.Storage.from_file(path, shared=False).nbytes == 0


def test_file_too_small_for_readonly_mapping_is_rejected(path) -> None:
    with pytest.raises(OSError, match=f"101 bytes of {path}, which has 100"):
        st.Storage.from_file(path, nbytes=101, readonly=True)
    with pytest.raises(ValueError, match=f"file {path} is too small: 100 bytes, expected 101"):
        st.Storage.from_file(path, shared=False, nbytes=101)


@pytest.mark.parametrize("nbytes", [0, -1, 2**63, 2.5, "x"])
def test_invalid_file_size_is_named(path, nbytes) -> None:
    for shared in (True, False):
        with pytest.raises((ValueError, TypeError), match=str(nbytes)):
            st.Storage.from_file(path, shared, nbytes)
    assert len(read(path)) == 100


def test_file_larger_than_disk_raises_and_is_not_extended(path) -> None:
    with pytest.raises(OSError, match=path):
        st.Storage.from_file(path, nbytes=2**60)
    assert len(read(path)) == 100
