"""SharedList: arrays as views, building, memory, refusals."""

from __future__ import annotations

import collections.abc
import gc
import pickle
import sys
import threading
import tracemalloc
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest

import shmtensor as st
from shmtensor.containers import _writer
from tests.helpers.children import output, run_command, run_python
from tests.helpers.dtypes import every_dtype, same_elements, some_array
from tests.helpers.live_resources import assert_no_leaks


def is_view_of_shared_memory(array: np.ndarray, items: st.SharedList) -> bool:
    addresses = [(piece.data_ptr(), piece.nbytes) for piece in items._pieces]
    place = array.__array_interface__["data"][0]
    return any(start <= place < start + size for start, size in addresses)


def is_pickled_out_of_band(array: np.ndarray) -> bool:
    buffers: list[pickle.PickleBuffer] = []
    pickle.dumps(array, 5, buffer_callback=buffers.append)
    return bool(buffers)


@every_dtype
def test_array_item_is_a_readonly_view(dtype, strategy) -> None:
    arrays = [some_array(dtype), some_array(dtype)[::2, 1:], some_array(dtype).T]
    arrays.append(np.asarray(arrays[0][1, 2]))
    items = st.SharedList([*arrays, {"inside": arrays[0]}])
    inside = items[-1]["inside"]
    for expected, array in zip([*arrays, arrays[0]], [*items[:4], inside], strict=True):
        if array is inside and not is_pickled_out_of_band(expected):
            assert array.tolist() == expected.tolist()
            continue  # NumPy's own pickling copies these
        assert same_elements(array, expected)
        assert not array.flags.writeable
        assert is_view_of_shared_memory(array, items)
        assert array.__array_interface__["data"][0] % 64 == 0


def test_unsupported_arrays_are_copied() -> None:
    odd = [np.array([None, 1, "a"], object), np.zeros(3, "S0"), np.zeros((0, 4)), np.array(3.5)]
    items = st.SharedList(odd)
    assert [array.tolist() for array in items] == [array.tolist() for array in odd]
    assert items[2].shape == (0, 4)


def test_item_view_outlives_the_list() -> None:
    with assert_no_leaks():
        items = st.SharedList([np.full(100_000, 7)])
        array = items[0]
        part = array[::2]
        del items, array
        gc.collect()
        assert (part == 7).all()
        del part


def test_list_memory_is_readonly_for_builder_too() -> None:
    items = st.SharedList([np.zeros(3), b"abc"])
    array = items[0]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True
    lines = Path("/proc/self/maps").read_text().splitlines()
    place = array.__array_interface__["data"][0]
    for line in lines:
        start, end = (int(number, 16) for number in line.split()[0].split("-"))
        if start <= place < end:
            assert line.split()[1][:2] == "r-", line
            break
    else:
        raise AssertionError("the array is not in a mapping")
    for change in ("items[0] = 1", "del items[0]", "items.append(1)", "items.sort()"):
        with pytest.raises((TypeError, AttributeError), match="it never changes; make a new one"):
            exec(change, {"items": items})
    with pytest.raises(AttributeError, match=r"no attribute 'shape'$"):
        items.shape  # noqa: B018


def test_large_list_is_stored_in_parts_and_never_duplicated(monkeypatch) -> None:
    monkeypatch.setattr(_writer, "_SMALLEST", 100_000)
    monkeypatch.setattr(_writer, "_LARGEST", 100_000)
    item = "x" * 1000
    st.SharedList([1])  # the session
    tracemalloc.start()
    try:
        items = st.SharedList(item + str(i) for i in range(5000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(items._pieces) > 40
    assert items.nbytes > 5_000_000
    assert peak < 500_000, "a second copy was held"
    assert all(items[i] == item + str(i) for i in range(0, 5000, 7))
    assert pickle.loads(ForkingPickler.dumps(items)) == items


def test_list_consumes_a_generator_once() -> None:
    taken = []

    def generate():
        for i in range(100):
            taken.append(i)
            yield {"i": i}

    assert [item["i"] for item in st.SharedList(generate())] == taken == list(range(100))


def test_progress_is_printed_only_on_request(capsys) -> None:
    st.SharedList(range(10_000), progress=True)
    errors = capsys.readouterr().err
    assert "10,000 items" in errors
    assert "MiB" in errors
    st.SharedList.of_strings(map(str, range(10_000)), progress=True)
    assert "10,000 items" in capsys.readouterr().err
    st.SharedList(range(10_000))
    assert capsys.readouterr().err == ""


def test_list_repr_shows_sizes() -> None:
    items = st.SharedList(range(2000))
    assert repr(items).startswith("<SharedList: 2,000 items, ")
    assert "KiB shared" in repr(items)
    assert "500 items, a view of 2,000" in repr(items[:500])
    assert "of bytes" in repr(st.SharedList.of_bytes([b""]))
    assert items.nbytes >= 2000 * 8


def test_list_is_an_unhashable_sequence() -> None:
    items = st.SharedList([1])
    assert isinstance(items, collections.abc.Sequence)
    with pytest.raises(TypeError, match="unhashable"):
        hash(items)
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type("Mine", (st.SharedList,), {})


class Odd:
    def __reduce__(self):
        raise RuntimeError("no way")


def test_unpicklable_item_is_named_without_leaks() -> None:
    with assert_no_leaks():
        for bad in (Odd(), lambda: 1):
            with pytest.raises(pickle.PicklingError, match=r"item 2 cannot be pickled, \w+ <.*") as caught:
                st.SharedList([1, 2, bad])
            assert caught.value.__cause__ is not None
            del caught


def test_iterable_errors_propagate() -> None:
    def generate():
        yield 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        st.SharedList(generate())
    with pytest.raises(TypeError, match="not iterable"):
        st.SharedList(5)
    with pytest.raises(TypeError, match="item 1 is not a str: int 5"):
        st.SharedList.of_strings(["a", 5])
    with pytest.raises(TypeError, match="item 0 is not a bytes-like object: str 'a'"):
        st.SharedList.of_bytes(["a"])


def test_noncontiguous_buffer_items_are_accepted() -> None:
    """Regression: for every second element of an array, "can't concat memoryview to bytearray"."""
    array = np.arange(24, dtype="i4").reshape(4, 6)
    items = [array, array[:, ::2], array.T, array[::-1], array[0, 0], array[:0, ::2]]
    items += [st.asarray(array)[1:, 1], np.zeros(3, "i2,f8")[::2], memoryview(b"abcdef")[::-2]]
    shared = st.SharedList.of_bytes(items)
    assert list(shared) == [bytes(memoryview(item)) for item in items]


@pytest.mark.parametrize("key", ["a", 1.5, None, np.zeros((2, 2), int), [0.5], (1, 2, "a")])
def test_invalid_index_is_rejected_with_its_value(key) -> None:
    with pytest.raises(TypeError, match="integers, slices or one-dimensional integer or boolean arrays"):
        st.SharedList([1, 2, 3])[key]


def test_out_of_range_choices_are_rejected() -> None:
    items = st.SharedList([1, 2, 3])
    with pytest.raises(IndexError, match="index 3 is out of range for 3 items"):
        items[np.array([0, 3])]
    with pytest.raises(IndexError, match="boolean index has length 2, expected 3"):
        items[np.array([True, False])]
    assert items[np.int64(2)] == 3
    assert items[True] == 2


def test_out_of_memory_raises_without_leaks() -> None:
    with assert_no_leaks():
        st.set_limit(8 << 20)
        try:
            with pytest.raises(st.OutOfSharedMemory):
                st.SharedList(bytes(1 << 20) for _ in range(64))
        finally:
            st.set_limit(None)


def test_sending_a_list_sends_a_handle_and_reads_no_item() -> None:
    items = st.SharedList(Loud(i) for i in range(1000))
    Loud.loaded = 0
    message = ForkingPickler.dumps(items)
    assert len(message) < 500
    again = pickle.loads(message)
    assert Loud.loaded == 0
    assert again[3].value == 3
    assert Loud.loaded == 1
    assert again._pieces[0] is items._pieces[0], "one block is one storage"


class Loud:
    loaded = 0

    def __init__(self, value: int) -> None:
        self.value = value

    def __setstate__(self, state) -> None:
        type(self).loaded += 1
        self.__dict__ = state


def test_items_of_any_size_load_independently() -> None:
    """One pickler writes all items: it forgets its memo after each; large bytes arrive in pieces."""
    common = ["in all of them"]
    items = [[common, list(range(n)), bytes(n)] for n in (0, 5000, 1, 200_000, 2, 2)]
    shared = st.SharedList(items)
    assert list(shared) == items
    assert all(pickle.loads(pickle.dumps(item)) == item for item in shared)
    first, last = shared[0], shared[-1]
    first[0].append("changed")
    assert last[0] == common


def test_item_that_fails_to_pickle_midway_is_named() -> None:
    """Its beginning, large enough to have been written, does not affect later lists."""
    with pytest.raises(pickle.PicklingError, match="item 1 cannot be pickled"):
        st.SharedList([0, [bytes(1 << 20), threading.Lock()], 2])
    assert list(st.SharedList([0, 2])) == [0, 2]


def test_metadata_of_one_dtype_do_not_reach_another() -> None:
    described = np.dtype("f8", metadata={"unit": "m"})
    items = st.SharedList([np.zeros(2, described), np.zeros(2)])
    assert [array.dtype.metadata for array in items] == [{"unit": "m"}, None]


def test_list_is_built_without_standard_error() -> None:
    code = "import sys, shmtensor as st; assert len(st.SharedList([1], progress=True)) == 1; sys.exit(5)"
    done = run_command(["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, code])
    assert done.returncode == 5, done.stdout


def test_array_without_memory_for_its_shape_is_a_memory_error() -> None:
    """Regression: a number was missing in the shape, and NumPy raised TypeError."""
    pytest.importorskip("_testcapi", reason="it makes Python's allocations fail")
    code = """
        import _testcapi
        import numpy as np
        import shmtensor as st

        items = st.SharedList([np.zeros((300, 400), np.uint8)])
        items[0]
        failures = 0
        for first in range(60):
            _testcapi.set_nomemory(first, first + 1)
            try:
                items[0]
            except MemoryError:
                failures += 1
            finally:
                _testcapi.remove_mem_hooks()
        print(failures)
    """
    assert int(output(run_python(code))) > 2
