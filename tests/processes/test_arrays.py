"""Promise 17: arrays over shared memory are sent as handles, whatever transport, view and class made them."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import sys
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end, running
from tests.helpers.queues import take

RECORD = np.dtype([("a", "i4"), ("b", "f8", (2,))])


def write_into(channel, answers) -> None:
    array = channel.get() if hasattr(channel, "get") else channel.recv()
    answers.put((type(array) is np.ndarray, array.strides, array.dtype, array.flags.writeable))
    if array.flags.writeable:
        array[...] = 7
    answers.put("written")


def write_argument(array, answers) -> None:
    array[...] = 7
    answers.put(type(array) is np.ndarray)


def write_result(array: np.ndarray) -> np.ndarray:
    array[...] = 7
    return array


def views() -> list[np.ndarray]:
    array = st.zeros((6, 10)).numpy()
    record = st.zeros(10, dtype=RECORD).numpy()
    return [
        array,
        array[2:4, 3:],
        array[::-1, ::2],
        array.T,
        array[3],
        array[0, 0:1],
        np.broadcast_to(array[0, :1], (5, 4)),
        record,
        record["b"],
        np.frombuffer(st.zeros(5).storage(), "f4"),
        np.asarray(memoryview(st.zeros(5))),
        np.from_dlpack(st.zeros(5)),
        st.zeros(5).as_readonly().numpy(),
        st.zeros((), dtype="m8[s]").numpy(),
    ]


@pytest.mark.parametrize("number", range(len(views())))
def test_view_keeps_its_layout_and_memory(number) -> None:
    array = views()[number]
    blocks = st.stats()["blocks"]
    back = pickle.loads(ForkingPickler.dumps(array))
    assert st.stats()["blocks"] == blocks
    assert type(back) is np.ndarray
    assert back.__array_interface__ == array.__array_interface__
    assert (back.dtype, back.strides) == (array.dtype, array.strides)
    del array
    back.sum() if back.dtype.names is None and back.dtype.kind == "f" else back.copy()


def check_arrival_over_the_same_memory(ctx, reader, send) -> None:
    array = st.zeros((4, 6)).numpy()[1:3, ::-2]
    answers = ctx.SimpleQueue()
    process = ctx.Process(target=write_into, args=(reader, answers))
    process.start()
    send(array)
    assert take(answers) == (True, array.strides, array.dtype, True)
    assert take(answers) == "written"
    assert (array == 7).all()
    end(process)
    answers.close()


@pytest.mark.parametrize("kind", ["queue", "st.Queue"])
def test_array_arrives_over_the_same_memory_by_queue(ctx, kind) -> None:
    with contextlib.closing(ctx.SimpleQueue() if kind == "queue" else st.Queue()) as queue:
        check_arrival_over_the_same_memory(ctx, queue, queue.put)


def test_array_arrives_over_the_same_memory_by_pipe(ctx) -> None:
    reader, writer = ctx.Pipe(duplex=False)
    with reader, writer:
        check_arrival_over_the_same_memory(ctx, reader, writer.send)


# Queues of the standard library do not belong to the contexts of "server".
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_array_arrives_over_the_same_memory_by_standard_queue(method) -> None:
    with contextlib.closing(multiprocessing.get_context(method).SimpleQueue()) as queue:
        check_arrival_over_the_same_memory(mp.get_context(method), queue, queue.put)


def test_arguments_and_pool_use_the_same_memory(ctx) -> None:
    tensor = st.zeros(10)
    answers = ctx.SimpleQueue()
    with running(ctx, write_argument, tensor.numpy()[:5], answers):
        assert take(answers)
    assert tensor.tolist() == [7] * 5 + [0] * 5
    with ctx.Pool(1) as pool:
        back = pool.apply(write_result, (tensor.numpy()[5:],))
        pool.close()
        pool.join()
    assert tensor.tolist() == [7] * 10
    back[:] = 1
    assert tensor.tolist() == [7] * 5 + [1] * 5


def test_array_of_a_file_is_sent_as_the_file(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8000))
    storage = st.Storage.from_file(path)
    back = pickle.loads(ForkingPickler.dumps(np.frombuffer(storage)[10:20]))
    back[...] = 3
    assert np.fromfile(path)[10:20].tolist() == [3] * 10


def test_other_arrays_are_pickled_as_by_numpy() -> None:
    class Special(np.ndarray):
        pass

    globals()["Special"] = Special
    Special.__qualname__ = "Special"
    st.empty(1)
    arrays = [
        np.arange(10.0),
        np.arange(100_000).reshape(100, 1000).T,
        np.array([{}, None]),
        np.zeros(0),
        st.zeros(0).numpy(),
        st.zeros(5).numpy().view(Special),
        np.lib.stride_tricks.as_strided(st.zeros(2).numpy(), (0, 5)),
    ]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        for array in arrays:
            back = pickle.loads(ForkingPickler.dumps(array, protocol))
            assert type(back) is type(array)
            assert back.shape == array.shape
            assert (back == array).all()
            assert back.flags.writeable
    q: st.Queue = st.Queue()
    for array in arrays:
        q.put([array])
        (back,) = q.get()
        assert type(back) is type(array)
        assert (back == array).all()


def test_plain_pickle_of_an_array_over_shared_memory_is_a_copy() -> None:
    array = st.ones(10).numpy()
    back = pickle.loads(pickle.dumps(array))
    back[:] = 5
    assert array.tolist() == [1] * 10


def test_views_in_one_message_share_their_memory() -> None:
    array = st.zeros(10).numpy()
    q: st.Queue = st.Queue()
    q.put([array[:5], array[3:], array])
    first, second, whole = q.get()
    whole[4] = 9
    assert (first[4], second[1], array[4]) == (9, 9, 9)
    first, writer = mp.Pipe()
    writer.send({"view": array[4:5]})
    assert first.recv()["view"][0] == 9
    first.close()
    writer.close()


@pytest.mark.parametrize(
    "package", [multiprocessing, mp], ids=["multiprocessing", "shmtensor.multiprocessing"]
)
def test_small_private_arrays_run_no_python_code(package) -> None:
    """The standard library's pickler is as quick as without this package where nothing is shared."""
    array, tensor = np.arange(100), st.zeros(3)
    calls = []
    dumps = package.reduction.ForkingPickler.dumps
    profile = sys.getprofile()
    sys.setprofile(
        lambda frame, event, _: calls.append(frame.f_code.co_filename) if event == "call" else None
    )
    try:
        message = dumps([array, array[::2], {"a": array.reshape(10, 10).T}])
    finally:
        sys.setprofile(profile)
    assert "reduction.py" in "".join(calls)
    assert not [
        name for name in calls if name.endswith(("shmtensor/reducers.py", "multiprocessing/process.py"))
    ]
    first, second, third = pickle.loads(message)
    np.testing.assert_array_equal(first, array)
    np.testing.assert_array_equal(second, array[::2])
    np.testing.assert_array_equal(third["a"], array.reshape(10, 10).T)
    del tensor
