"""Damaged and foreign memory raises; it is never read as another object."""

from __future__ import annotations

import contextlib
import pickle

import numpy as np
import pytest

import shmtensor as st
from shmtensor.containers._list import _rebuild


def pieces_of(items: st.SharedList) -> list[bytearray]:
    return [bytearray(memoryview(piece)) for piece in items._pieces]


def rebuilt(pieces: list[bytearray]) -> st.SharedList:
    storages = tuple(st.frombuffer(piece, np.uint8).storage() for piece in pieces)
    return _rebuild(storages, (0, 1, -1), None)


HEAD = 40  # bytes before the entries of one piece
ITEMS = [{"a": 1}, np.arange(10), [np.ones(3), "b"], "text"]


def test_intact_list_copy_is_accepted() -> None:
    assert repr(list(rebuilt(pieces_of(st.SharedList(ITEMS))))) == repr(ITEMS)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 60, 100])
def test_truncated_list_is_rejected(size) -> None:
    (piece,) = pieces_of(st.SharedList(ITEMS))
    with pytest.raises(st.CorruptDataError, match="Rebuild the container"):
        rebuilt([piece[:size]])


def test_foreign_bytes_are_rejected() -> None:
    for content in (b"hello" * 100, pickle.dumps(ITEMS), bytes(1000)):
        with pytest.raises(st.CorruptDataError, match="does not have the expected magic number"):
            rebuilt([bytearray(content)])


def test_mixed_parts_of_two_lists_are_rejected() -> None:
    (one,), (other,) = pieces_of(st.SharedList([1, 2])), pieces_of(st.SharedList([3]))
    with pytest.raises(st.CorruptDataError, match="2 pieces were given, the header declares 1"):
        rebuilt([one, other])


def test_changed_magic_number_and_sizes_are_detected() -> None:
    """Another number of items is accepted if their entries fit: an item is inside the memory in any case."""
    (piece,) = pieces_of(st.SharedList(ITEMS))
    for place in (*range(8), *range(24, HEAD)):
        damaged = bytearray(piece)
        damaged[place] ^= 0x40
        with pytest.raises(st.CorruptDataError):
            rebuilt([damaged])


def test_changed_number_of_items_never_reads_out_of_bounds() -> None:
    (piece,) = pieces_of(st.SharedList(ITEMS))
    for count in (0, 3, 5, 50, 1 << 40):
        damaged = bytearray(piece)
        damaged[16:24] = count.to_bytes(8, "little")
        if count > len(piece) // 8:
            with pytest.raises(st.CorruptDataError, match="too short"):
                rebuilt([damaged])
        else:
            items = rebuilt([damaged])
            for index in range(count):
                with contextlib.suppress(Exception):  # a wrong pickle may raise anything
                    items[index]


def test_changed_entries_never_read_out_of_bounds() -> None:
    """Whatever the entries contain, an access returns an object or raises, and reads no other memory."""
    (piece,) = pieces_of(st.SharedList(ITEMS))
    caught = 0
    for place in range(HEAD, HEAD + 8 * len(ITEMS)):
        for flip in (0x01, 0x10, 0x80, 0xFF):
            damaged = bytearray(piece)
            damaged[place] ^= flip
            items = rebuilt([damaged])
            for index in range(len(ITEMS)):
                try:
                    items[index]
                except Exception:  # a wrong pickle may raise anything
                    caught += 1
    assert caught > 50


def test_corrupted_pickle_item_raises_error_that_names_it() -> None:
    (piece,) = pieces_of(st.SharedList(["text" * 10]))
    piece[-60:] = bytes(60)
    with pytest.raises(st.CorruptDataError, match="it is not a pickle"):
        rebuilt([piece])[0]


def test_out_of_range_selection_is_rejected() -> None:
    items = st.SharedList([1, 2, 3])
    wrong = st.asarray(np.array([0, 7, -1]))
    view = _rebuild(items._pieces, (0, 1, 3), wrong)
    assert view[0] == 1
    for index in (1, 2):
        with pytest.raises(st.CorruptDataError, match="leads outside"):
            view[index]
    far = _rebuild(items._pieces, (1 << 62, 1 << 62, 3), None)
    with pytest.raises(st.CorruptDataError, match="leads outside"):
        far[2]


@pytest.mark.parametrize("dtype", ["M8[s]", "M8[s],i4", "(2,)M8[s]", "i4,(2,)M8[s]"])
def test_array_of_objects_is_rejected(dtype) -> None:
    """NumPy would follow its elements as pointers."""
    described = np.dtype([("inner", dtype)]) if dtype.startswith("(") else np.dtype(dtype)
    (piece,) = pieces_of(st.SharedList([np.zeros(4, described)]))
    place = bytes(piece).index(b"M8")
    piece[place] ^= 0x02  # M8 becomes O8
    with pytest.raises(st.CorruptDataError, match="its type is damaged"):
        rebuilt([piece])[0]
