"""Promise 18, for arrays of any dtype, class and layout: the receiver has what NumPy's pickle gives."""

from __future__ import annotations

import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._core import storage_at
from tests.helpers.children import running
from tests.helpers.queues import take

BIG = 20_000  # elements of 8 bytes: above the threshold


class Lengths(np.ndarray):
    """A subclass with an attribute, which NumPy does not pickle."""

    def __array_finalize__(self, obj) -> None:
        self.made_from = type(obj).__name__
        self.unit = getattr(obj, "unit", "m")


class Strict(np.ndarray):
    """A subclass that is not made from an array of another class."""

    def __array_finalize__(self, obj) -> None:
        if obj is not None and type(obj) is not Strict:
            raise TypeError("not from an array")


class Named(np.ndarray):
    """A subclass that pickles its attribute."""

    name = "none"

    def __reduce__(self):
        function, arguments, state = super().__reduce__()
        return function, arguments, (state, self.name)

    def __setstate__(self, state) -> None:
        array, self.name = state
        super().__setstate__(array)


def numbers(count: int = BIG) -> np.ndarray:
    return np.arange(float(count))


def named() -> np.ndarray:
    array = numbers().view(Named)
    array.name = "length"
    return array


def strict() -> np.ndarray:
    array = np.ndarray.__new__(Strict, BIG)
    array[...] = numbers()
    return array


def masked(count: int = BIG) -> np.ma.MaskedArray:
    return np.ma.array(numbers(count), mask=numbers(count) % 3 == 0, fill_value=7)


RECORD = [("a", "f4"), ("b", "i4")]
CLASSES = {
    "datetime64": lambda: np.arange(BIG).view("M8[ns]"),
    "timedelta64": lambda: np.arange(BIG).view("m8[us]"),
    "bfloat16": lambda: numbers(4 * BIG).astype(ml_dtypes.bfloat16),
    "recarray": lambda: numbers().view(RECORD).view(np.recarray),
    "matrix": lambda: numbers().reshape(100, -1).view(np.matrix),
    "memmap": lambda: numbers().view(np.memmap),
    "subclass": lambda: numbers().view(Lengths),
    "strict subclass": strict,
    "masked": masked,
    "masked, no mask": lambda: np.ma.array(numbers()),
    "masked records": lambda: np.ma.array(numbers().view(RECORD), mask=[(True, False)] * BIG),
    "masked matrix": lambda: np.ma.array(numbers().reshape(100, -1).view(np.matrix), mask=False),
    "masked times": lambda: np.ma.array(np.arange(BIG).view("M8[s]"), mask=np.arange(BIG) % 2),
}
LAYOUTS = {
    "reversed": lambda: numbers()[::-1],
    "every second": lambda: numbers(2 * BIG)[::2],
    "channels reversed": lambda: np.arange(300_000, dtype="u1").reshape(200, 500, 3)[..., ::-1],
    "crop": lambda: numbers(4 * BIG).reshape(200, -1)[20:180, 30:330],
    "transposed crop": lambda: numbers(4 * BIG).reshape(200, -1)[20:180, 30:330].T,
    "transposed": lambda: numbers().reshape(100, -1).T,
    "transposed image": lambda: np.arange(300_000, dtype="u1").reshape(200, 500, 3).transpose(2, 0, 1),
    "transposed times": lambda: np.arange(BIG).view("M8[s]").reshape(100, -1).T,
    "part of records": lambda: numbers(2 * BIG).view(RECORD).view(np.recarray)["b"],
    "part of a matrix": lambda: numbers(4 * BIG).reshape(200, -1).view(np.matrix)[::2],
    "part of a masked array": lambda: masked(2 * BIG)[::2],
    "masked, transposed": lambda: masked().reshape(100, -1).T,
    "broadcast": lambda: np.broadcast_to(numbers(100), (200, 100)),
}
READ_ONLY = {
    "bytes": lambda size: np.frombuffer(bytes(size * 8)),
    "flag": lambda size: np.require(numbers(size), requirements=["C"]),
    "broadcast": lambda size: np.broadcast_to(np.float64(1), (size,)),
    "fortran": lambda size: np.asfortranarray(np.ones((size // 10, 10))),
    "times": lambda size: np.arange(size).view("M8[s]"),
    "subclass": lambda size: numbers(size).view(Lengths),
}


def made(name: str) -> np.ndarray:
    return {**CLASSES, **LAYOUTS}[name]()


def is_in_block(array: np.ndarray) -> bool:
    if isinstance(array, np.ma.MaskedArray):
        return is_in_block(array.data)
    return storage_at(array.__array_interface__["data"][0], 1) is not None


def described(array: np.ndarray) -> tuple:
    parts = (array.data, np.ma.getmaskarray(array)) if isinstance(array, np.ma.MaskedArray) else (array,)
    return (
        type(array),
        array.dtype,
        array.shape,
        [(part.strides, type(part), part.flags.writeable, part.tobytes()) for part in parts],
        str(getattr(array, "fill_value", None)),  # NaT is not equal to itself
        getattr(array, "unit", None),
        getattr(array, "made_from", None),
    )


def as_by_numpy(array: np.ndarray) -> tuple:
    """Describe what a receiver of the standard library has, before Python 3.14."""
    return described(pickle.loads(pickle.dumps(array, 4)))


def through(array: np.ndarray, transport: str = "st.Queue") -> np.ndarray:
    if transport == "pipe":
        reader, writer = mp.Pipe()
        with reader, writer:
            writer.send(array)
            return reader.recv()
    q = st.Queue() if transport == "st.Queue" else getattr(mp, transport)()
    q.put(array)
    return q.get()


@pytest.mark.parametrize("name", [*CLASSES, *LAYOUTS])
def test_elements_arrive_in_shared_memory_and_the_array_as_by_numpy(name) -> None:
    array = made(name)
    expected = as_by_numpy(array)
    back = through(array)
    assert is_in_block(back)
    assert described(back) == expected
    back[...] = back.flat[0]
    assert as_by_numpy(array) == expected, "the receiver has its own copy"


@pytest.mark.parametrize("transport", ["Queue", "SimpleQueue", "JoinableQueue", "pipe"])
@pytest.mark.parametrize("name", ["datetime64", "recarray", "masked", "subclass", "every second"])
def test_every_transport_has_them(name, transport) -> None:
    back = through(made(name), transport)
    assert is_in_block(back)
    assert described(back) == as_by_numpy(made(name))


def checked_arrays(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    for name, array in arrays.items():
        assert is_in_block(array), name
        assert described(array) == as_by_numpy(made(name)), name
    return arrays


def check_argument(arrays, answers) -> None:
    answers.put(checked_arrays(arrays))


SENT = ("datetime64", "bfloat16", "recarray", "matrix", "masked", "subclass", "every second")


def test_arguments_and_results_of_a_pool(ctx) -> None:
    with ctx.Pool(1) as pool:
        checked_arrays(pool.apply(checked_arrays, ({name: made(name) for name in SENT},)))
        pool.close()
        pool.join()


# A forked process inherits its arguments. The others get them from the standard library's pickler.
@pytest.mark.parametrize("method", ["spawn", "forkserver", "server"])
def test_arguments_of_a_process(method) -> None:
    ctx = mp.get_context(method)
    answers = ctx.Queue()
    arrays = {name: made(name) for name in (*CLASSES, *LAYOUTS)}
    with running(ctx, check_argument, arrays, answers):
        checked_arrays(take(answers))


@pytest.mark.parametrize("name", [*CLASSES, *LAYOUTS])
def test_share_has_the_same_mechanism(name) -> None:
    array = made(name)
    shared = st.share(array)
    assert is_in_block(shared)
    assert not shared.flags.writeable
    kind, dtype, shape, parts, *attributes = described(shared)
    assert [(strides, part, content) for strides, part, _, content in parts] == [
        (strides, part, content) for strides, part, _, content in as_by_numpy(array)[3]
    ]
    assert (kind, dtype, shape, *attributes) == (*as_by_numpy(array)[:3], *as_by_numpy(array)[4:])


def test_readers_of_a_broadcast_use_one_copy() -> None:
    broadcast: st.Broadcast = st.Broadcast(4)
    first, second = broadcast.reader(), broadcast.reader()
    for name in SENT:
        broadcast.put(made(name))
        one, other = first.get(), second.get()
        assert np.shares_memory(np.asarray(one), np.asarray(other)), name
        assert not one.flags.writeable, name
        assert np.array_equal(np.asarray(one), np.asarray(made(name))), name
    for end_ in (first, second, broadcast):
        end_.close()


def test_class_that_pickles_itself_keeps_its_attribute() -> None:
    back = through(named())
    assert (type(back), back.name) == (Named, "length")
    assert np.array_equal(back, numbers())
    shared = st.ones(BIG).numpy().view(Named)
    shared.name = "shared"
    for back in (through(shared), pickle.loads(ForkingPickler.dumps(shared))):
        assert (type(back), back.name, back[0]) == (Named, "shared", 1)


def test_record_and_constant_of_masked_arrays_arrive() -> None:
    records = np.ma.array(numbers(4).view(RECORD), mask=[(True, False)] * 4)
    for value in (records[0], np.ma.masked):
        back = through([value])[0]
        assert type(back) is type(value)
    assert through([np.ma.masked])[0] is np.ma.masked


@pytest.mark.parametrize("size", [100, BIG])
@pytest.mark.parametrize("name", READ_ONLY)
@pytest.mark.parametrize("transport", ["st.Queue", "Queue", "pipe"])
def test_copy_of_a_read_only_array_can_be_written(name, size, transport) -> None:
    array = READ_ONLY[name](size)
    array.flags.writeable = False
    expected = as_by_numpy(array)
    assert expected[3][0][2], "its receiver may write"
    back = through(array, transport)
    assert is_in_block(back) == (size == BIG)
    assert described(back) == expected
    back[...] = back.flat[1]
    assert as_by_numpy(array) == expected


def write_into(array: np.ndarray) -> np.ndarray:
    array[0] = 5
    return np.broadcast_to(array[0], len(array))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("size", [100, BIG])
def test_pool_writes_into_copies_of_read_only_arrays(method, size) -> None:
    with mp.get_context(method).Pool(1) as pool:
        back = pool.apply(write_into, (np.frombuffer(bytes(size * 8)),))
        pool.close()
        pool.join()
    back += 1
    assert back.tolist() == [6] * size


@pytest.mark.parametrize("shared", [True, False])
def test_readers_of_a_broadcast_never_write_into_the_same_memory(shared) -> None:
    broadcast: st.Broadcast = st.Broadcast(4)
    first, second = broadcast.reader(), broadcast.reader()
    for size in (100, BIG):
        array = st.share(numbers(size)) if shared else np.frombuffer(bytes(size * 8))
        broadcast.put(array)
        one, other = first.get(), second.get()
        assert one.flags.writeable == other.flags.writeable == (not shared and size == 100)
        assert np.shares_memory(one, other) != one.flags.writeable
    for end_ in (first, second, broadcast):
        end_.close()


@pytest.mark.parametrize("size", [3, 1000, 5000])
@pytest.mark.parametrize("transport", ["st.Queue", "Queue", "pipe"])
def test_small_array_owns_its_elements(size, transport) -> None:
    back = through(numbers(size), transport)
    back.resize(size + 2)
    assert back[-3:].tolist() == [size - 1, 0, 0]


SHARED = {
    "recarray": lambda tensor: tensor.numpy().view(RECORD).view(np.recarray),
    "matrix": lambda tensor: tensor.numpy().reshape(10, -1).view(np.matrix),
    "subclass": lambda tensor: tensor.numpy().view(Lengths)[::2],
    "masked": lambda tensor: np.ma.array(tensor.numpy(), mask=np.arange(1000) == 5, copy=False),
    "read-only": lambda tensor: tensor.as_readonly().numpy().view(Lengths),
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("transport", ["st.Queue", "Queue", "pipe"])
def test_array_of_a_subclass_over_shared_memory_stays_there(name, transport) -> None:
    array = SHARED[name](st.zeros(1000))
    blocks = st.stats()["blocks"]
    back = through(array, transport)
    assert st.stats()["blocks"] == blocks
    assert (type(back), back.dtype, back.strides) == (type(array), array.dtype, array.strides)
    assert back.flags.writeable == array.flags.writeable
    assert np.shares_memory(np.asarray(back), np.asarray(array))
    if name == "masked":
        assert back.mask.tolist() == array.mask.tolist()


@pytest.mark.parametrize("name", ["recarray", "matrix", "read-only"])
def test_standard_pickler_sends_a_subclass_over_shared_memory_as_a_handle(name) -> None:
    array = SHARED[name](st.zeros(1000))
    back = pickle.loads(ForkingPickler.dumps(array))
    assert (type(back), back.strides, back.flags.writeable) == (
        type(array),
        array.strides,
        array.flags.writeable,
    )
    assert np.shares_memory(np.asarray(back), np.asarray(array))


@pytest.mark.parametrize("name", CLASSES)
def test_standard_pickler_needs_nothing_of_this_package_for_private_arrays(name) -> None:
    """The receiver may be a program without it."""
    st.empty(1)
    for array in (made(name), made(name)[:3]):
        for protocol in (4, 5):
            message = bytes(ForkingPickler.dumps(array, protocol))
            assert b"shmtensor" not in message
            assert described(pickle.loads(message))[:3] == as_by_numpy(array)[:3]


def test_threshold_counts_for_every_class() -> None:
    try:
        for threshold in (None, 10**6):
            mp.set_buffer_threshold(threshold)
            for name in SENT:
                back = through(made(name))
                assert not is_in_block(back), name
                assert described(back) == as_by_numpy(made(name)), name
        mp.set_buffer_threshold(0)
        assert is_in_block(through(np.zeros(1, "M8[s]")))
        assert len(through(np.zeros(0, "M8[s]"))) == 0
    finally:
        mp.set_buffer_threshold(64 * 1024)


def test_while_another_thread_imports_masked_arrays(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy.ma", ModuleType("numpy.ma"))
    received = pickle.loads(ForkingPickler.dumps(named()))
    assert type(received) is Named
    assert received.name == "length"
