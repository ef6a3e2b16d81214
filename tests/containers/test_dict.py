"""SharedDict compared with dict, by hypothesis; nesting, arrays, refusals."""

from __future__ import annotations

import collections.abc
import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import shmtensor as st
from shmtensor.containers._dict import _rebuild
from tests.helpers.children import running
from tests.helpers.generators import generated
from tests.helpers.live_resources import assert_no_leaks
from tests.helpers.queues import take

keys = some.text(max_size=8) | some.integers(-(2**63), 2**63 - 1) | some.integers(0, 5)
plain = some.none() | some.booleans() | some.integers() | some.text() | some.binary()
values = some.recursive(
    plain, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(keys, inner, max_size=4)
)
dicts = some.dictionaries(keys, values, max_size=20)


@pytest.mark.thorough
@generated(150)
@given(dicts, some.lists(keys), some.booleans())
def test_shared_dict_behaves_like_dict(mapping, others, nested) -> None:
    shared = st.SharedDict(mapping, nested=nested)
    assert len(shared) == len(mapping)
    assert list(shared) == list(shared.keys()) == list(mapping)
    assert list(reversed(shared)) == list(reversed(mapping))
    assert dict(shared.items()) == mapping
    assert list(shared.values()) == list(mapping.values())
    assert shared.to_dict() == mapping
    assert shared == mapping
    assert mapping == shared
    assert (shared != mapping) is False
    for key in [*mapping, *others]:
        assert (key in shared) == (key in mapping)
        assert shared.get(key, "nothing") == mapping.get(key, "nothing")
        if key not in mapping:
            with pytest.raises(KeyError) as caught:
                shared[key]
            assert caught.value.args == (key,)
    assert pickle.loads(ForkingPickler.dumps(shared)) == mapping
    assert pickle.loads(pickle.dumps(shared)) == mapping
    assert st.SharedDict(iter(mapping.items())) == mapping


@pytest.mark.thorough
@generated(50)
@given(dicts, dicts)
def test_shared_dict_equals_mappings_only(left, right) -> None:
    assert (st.SharedDict(left) == right) == (left == right)
    assert (st.SharedDict(left) == st.SharedDict(right)) == (left == right)
    assert st.SharedDict(left) != list(left)


def test_many_keys_of_both_kinds_are_found() -> None:
    mapping = {f"path/{i}": i for i in range(5000)} | {i * 7919: str(i) for i in range(5000)}
    shared = st.SharedDict(mapping)
    assert all(shared[key] == value for key, value in mapping.items())
    assert "path/5000" not in shared
    assert 1 not in shared


def test_integer_keys_are_found_by_equal_integers() -> None:
    shared = st.SharedDict({1: "one", "a": "text"})
    assert shared[True] == shared[np.int8(1)] == "one"
    assert shared[np.str_("a")] == "text"
    for key in (1.0, 2**64, "\ud800", None, b"a"):
        assert key not in shared
    with pytest.raises(TypeError, match="unhashable"):
        shared.get([])


def test_state_dict_arrays_are_loaded_one_by_one() -> None:
    state = {"encoder": {"weight": np.ones((4, 5), "f4"), "bias": np.zeros(5)}, "groups": [{"lr": 0.1}]}
    shared = st.SharedDict(state)
    assert isinstance(shared["encoder"], st.SharedDict)
    weight = shared["encoder"]["weight"]
    np.testing.assert_array_equal(weight, state["encoder"]["weight"])
    assert not weight.flags.writeable
    (piece,) = shared._values._pieces
    place = weight.__array_interface__["data"][0]
    assert piece.data_ptr() <= place < piece.data_ptr() + piece.nbytes
    assert shared["groups"] == [{"lr": 0.1}]
    assert type(shared["groups"][0]) is dict
    inner = pickle.loads(ForkingPickler.dumps(shared["encoder"]))
    assert list(inner) == ["weight", "bias"]
    assert type(st.SharedDict(state, nested=False)["encoder"]) is dict
    assert shared["encoder"].nbytes == shared.nbytes


def test_unsupported_dicts_are_pickled_whole() -> None:
    circle: dict = {}
    circle["self"] = circle
    shared = st.SharedDict({"floats": {1.5: 2}, "truth": {True: 1}, "circle": circle, "two": {"\ud800": 1}})
    assert type(shared["floats"]) is dict
    assert type(shared["truth"]) is dict
    assert type(shared["two"]) is dict
    assert shared["floats"] == {1.5: 2}
    inner = shared["circle"]["self"]
    assert inner["self"] is inner


@pytest.mark.parametrize("key", [1.5, None, (1, 2), b"a", 2**63, "\ud800"])
def test_unsupported_keys_are_rejected_without_leaks(key) -> None:
    with assert_no_leaks(), pytest.raises(TypeError, match="string or an integer of 64 bits, not"):
        st.SharedDict({"a": np.ones(1000), key: 1})


def test_duplicate_key_is_rejected() -> None:
    with pytest.raises(ValueError, match="duplicate key 'a'"):
        st.SharedDict([("a", 1), ("b", 2), ("a", 3)])
    with pytest.raises(pickle.PicklingError, match="cannot be pickled"):
        st.SharedDict({"a": lambda: 1})


def test_shared_dict_is_a_readonly_mapping_with_nbytes(capsys) -> None:
    shared = st.SharedDict({str(i): i for i in range(5000)}, progress=True)
    assert "SharedDict: 5,001 items" in capsys.readouterr().err
    assert isinstance(shared, collections.abc.Mapping)
    assert repr(shared).startswith("<SharedDict: 5,000 keys, ")
    for change in ("shared['a'] = 1", "del shared['0']", "shared.clear()", "shared.update({})"):
        with pytest.raises((TypeError, AttributeError), match="it never changes; make a new one"):
            exec(change, {"shared": shared})
    with pytest.raises(TypeError, match="unhashable"):
        hash(shared)
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type("Mine", (st.SharedDict,), {})


def test_corrupted_keys_raise_or_are_not_found() -> None:
    shared = st.SharedDict({"alpha": 1, 5: 2})
    (piece,) = shared._values._pieces
    content = bytes(memoryview(piece))
    start = content.index(b"stkeytb1")
    for place in range(start, len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x81
        storage = st.frombuffer(damaged, np.uint8).storage()
        try:
            made = _rebuild((storage,), shared._number)
            list(made.items())
            made.get("alpha")
        except (st.CorruptDataError, UnicodeDecodeError, LookupError):
            pass
    with pytest.raises(st.CorruptDataError, match="is not a key table"):
        _rebuild((piece,), 0)
    with pytest.raises(st.CorruptDataError, match="is not a key table"):
        _rebuild((piece,), 99)


def read_items(shared, queue) -> None:
    queue.put((shared["n"]["x"].tolist(), len(shared), shared["n"]))


def test_shared_dict_is_sent_to_other_processes(ctx, strategy) -> None:
    shared = st.SharedDict({"n": {"x": np.arange(3)}, 1: "one"})
    queue = ctx.SimpleQueue()
    with running(ctx, read_items, shared, queue):
        seen, length, inner = take(queue)
    queue.close()
    assert (seen, length) == ([0, 1, 2], 2)
    assert inner["x"].tolist() == [0, 1, 2]


def test_tensor_out_of_a_dict_is_not_called_private() -> None:
    """Regression: its text was "private, read-only", although its elements are in shared memory."""
    found = st.SharedDict({"w": st.ones(2)})["w"]
    assert not found.is_shared()
    assert repr(found) == "Tensor([1., 1.], dtype=float64, over shared memory, read-only)"
    assert "private" in repr(st.from_numpy(found.numpy().copy()))
