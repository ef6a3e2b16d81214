"""Storage: shared bytes with the buffer protocol; copies, fills, identity, repr."""

from __future__ import annotations

import copy
import weakref

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.live_resources import assert_no_leaks, live_resources

pytestmark = pytest.mark.usefixtures("strategy")


@pytest.mark.parametrize("size", [0, 1, 8, 4097, np.int64(100), np.uint8(7)], ids=repr)
def test_new_storage_is_shared_and_writable(size) -> None:
    before = live_resources()
    storage = st.Storage(size)
    assert storage.nbytes == len(storage) == size
    assert (storage.is_shared(), storage.readonly, storage.filename, storage.device) == (
        True,
        False,
        None,
        "cpu",
    )
    assert storage.data_ptr() % 64 == 0
    assert live_resources()[:2] == (before[0] + 1, before[1] + int(size))
    del storage
    assert live_resources() == before


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        (-1, ValueError),
        (2**63, ValueError),
        (2**64, ValueError),
        (2.5, TypeError),
        ("8", TypeError),
        (None, TypeError),
    ],
)
def test_invalid_storage_size_is_named(size, kind) -> None:
    with assert_no_leaks(), pytest.raises(kind, match=str(size)):
        st.Storage(size)


def test_storage_has_the_buffer_protocol() -> None:
    storage = st.Storage(6).fill_(1)
    view = memoryview(storage)
    assert (view.format, view.ndim, view.nbytes, view.readonly, view.c_contiguous) == ("B", 1, 6, False, True)
    view[2] = 9
    np.frombuffer(storage, "u1")[3] = 8
    assert storage.tobytes() == bytes(storage) == b"\1\1\x09\x08\1\1"


def test_readonly_storage_returns_readonly_buffers() -> None:
    storage = st.frombuffer(b"1234", "u1").storage()
    assert storage.readonly
    assert memoryview(storage).readonly
    for write in (lambda: storage.fill_(0), lambda: storage.copy_(b"abcd")):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert storage.tobytes() == b"1234"


def test_clone_and_copy_return_shared_copies() -> None:
    for original in (st.Storage(5).copy_(b"hello"), st.frombuffer(b"hello", "u1").storage()):
        for twin in (original.clone(), copy.copy(original), copy.deepcopy(original)):
            assert twin is not original
            assert (twin.is_shared(), twin.readonly, twin.tobytes()) == (True, False, b"hello")


@pytest.mark.parametrize(
    "source",
    [
        b"abcdef",
        bytearray(b"abcdef"),
        memoryview(b"abcdef").cast("B", (2, 3)),
        np.frombuffer(b"abcdef", "i2"),
    ],
    ids=lambda source: type(source).__name__,
)
def test_copy_accepts_any_buffer_of_equal_size(source) -> None:
    storage = st.Storage(6)
    assert storage.copy_(source) is storage
    assert storage.tobytes() == b"abcdef"
    assert st.Storage(6).copy_(storage).tobytes() == b"abcdef"


@pytest.mark.parametrize(
    "source", [b"", b"a", b"abcdefg", np.zeros(6)], ids=["none", "one", "seven", "forty-eight"]
)
def test_copy_of_other_size_is_rejected_and_changes_nothing(source) -> None:
    storage = st.Storage(6).fill_(7)
    with pytest.raises(ValueError, match=f"copy {memoryview(source).nbytes} bytes into a storage of 6 bytes"):
        storage.copy_(source)
    assert storage.tobytes() == b"\7" * 6


def test_copy_accepts_only_buffers() -> None:
    with pytest.raises(TypeError, match="int"):
        st.Storage(6).copy_(5)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(-1, ValueError), (256, ValueError), (2.5, TypeError), ("a", TypeError), (b"a", TypeError)],
)
def test_fill_accepts_one_byte(value, kind) -> None:
    storage = st.Storage(3).fill_(np.uint8(255))
    with pytest.raises(kind, match=f"{value}|{type(value).__name__}"):
        storage.fill_(value)
    assert storage.tobytes() == b"\xff" * 3


def test_empty_storage_behaves_like_any_other() -> None:
    storage = st.Storage(0)
    assert storage.fill_(1).copy_(b"").clone().tobytes() == b""
    assert memoryview(storage).nbytes == 0


def test_storage_is_weak_referenceable_and_hashable() -> None:
    storage = st.Storage(3)
    assert weakref.ref(storage)() is storage
    assert len({storage, storage, st.Storage(3)}) == 2


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: st.Storage(5), "<Storage of 5 bytes on cpu, shared>"),
        (lambda: st.frombuffer(b"abc", "u1").storage(), "<Storage of 3 bytes on cpu, private, read-only>"),
        (lambda: st.from_numpy(np.zeros(2)).storage(), "<Storage of 16 bytes on cpu, private>"),
    ],
)
def test_storage_repr_shows_size_device_and_kind(make, text) -> None:
    assert repr(make()) == text


def test_storage_is_created_only_by_its_class() -> None:
    with pytest.raises(TypeError):
        st.Storage()
    with pytest.raises(TypeError, match="cannot create"):
        st.Storage.__base__()
