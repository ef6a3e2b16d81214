"""SharedList compared with list, by hypothesis."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import shmtensor as st
from tests.helpers.generators import generated

plain = some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text()
nested = some.recursive(
    plain | some.binary(), lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner)
)
lists = some.lists(nested, max_size=12)


@pytest.mark.thorough
@generated(80)
@given(lists, some.data())
def test_shared_list_behaves_like_list(items, data) -> None:
    shared = st.SharedList(iter(items))
    assert len(shared) == len(items)
    assert list(shared) == items
    assert list(reversed(shared)) == items[::-1]
    assert shared == items
    assert (shared != items) is False
    for index in range(-len(items), len(items)):
        assert shared[index] == items[index]
    value = data.draw(some.sampled_from(items) if items else nested)
    assert (value in shared) == (value in items)
    assert shared.count(value) == items.count(value)
    if value in items:
        assert shared.index(value) == items.index(value)
    else:
        with pytest.raises(ValueError, match="is not in the list"):
            shared.index(value)
    for index in (len(items), -len(items) - 1):
        with pytest.raises(IndexError, match=f"index {index} is out of range for {len(items)} items"):
            shared[index]


@pytest.mark.thorough
@generated(120)
@given(lists, some.data())
def test_nested_selections_match_list_slices(items, data) -> None:
    shared, expected = st.SharedList(items), list(items)
    for _ in range(data.draw(some.integers(1, 4))):
        kind = data.draw(some.sampled_from(["slice", "choice", "mask"]))
        if kind == "slice":
            part = data.draw(some.slices(len(expected)))
            shared, expected = shared[part], expected[part]
        elif kind == "choice":
            size = len(expected)
            chosen = data.draw(some.lists(some.integers(-size, size - 1), max_size=20)) if size else []
            dtype = data.draw(some.sampled_from([np.int64, np.int32]))
            shared = shared[np.array(chosen, dtype)]
            expected = [expected[i] for i in chosen]
        else:
            mask = data.draw(some.lists(some.booleans(), min_size=len(expected), max_size=len(expected)))
            shared = shared[np.array(mask, bool)]
            expected = [item for item, keep in zip(expected, mask, strict=True) if keep]
        assert list(shared) == expected
    assert pickle.loads(ForkingPickler.dumps(shared)) == expected
    assert pickle.loads(pickle.dumps(shared)) == expected


@generated(50)
@given(some.lists(some.binary()))
def test_bytes_round_trip(items) -> None:
    assert list(st.SharedList.of_bytes(items)) == items


@generated(50)
@given(some.lists(some.text(some.characters(), max_size=20)))
def test_strings_with_lone_surrogates_round_trip(items) -> None:
    assert list(st.SharedList.of_strings(items)) == items


@pytest.mark.thorough
@generated(50)
@given(lists, lists)
def test_shared_list_equals_lists_only(left, right) -> None:
    assert (st.SharedList(left) == right) == (left == right)
    assert (st.SharedList(left) == st.SharedList(right)) == (left == right)
    assert (right == st.SharedList(left)) == (left == right)
    assert st.SharedList(left) != tuple(left)
