"""Objects whose buffers `share` has put into shared memory: one copy, read-only, for all processes."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import textwrap
import threading

import numpy as np
import pytest

import shmtensor as st
from shmtensor import _core
from shmtensor._core import storage_at
from shmtensor._pickling import dumps
from tests.helpers.children import clean_environment, end, output, run_python, wait_until
from tests.helpers.dtypes import every_dtype, same_elements, some_array
from tests.helpers.failing_pickles import FailsToLoad, FailsToPickle
from tests.helpers.peers import Peer
from tests.helpers.queues import take

pytestmark = pytest.mark.usefixtures("strategy")

BIG = 20_000  # elements of 8 bytes


def storage_of(array: np.ndarray) -> st.Storage | None:
    return storage_at(array.__array_interface__["data"][0], max(array.nbytes, 1))


def blocks() -> int:
    gc.collect()
    return st.stats()["blocks"]


class Holder:
    """An object with arrays, as a data frame is."""

    def __init__(self) -> None:
        self.large = np.arange(float(BIG))
        self.fortran = np.asfortranarray(np.arange(20.0).reshape(4, 5))
        self.small = np.arange(3)

    def arrays(self) -> list[np.ndarray]:
        return [self.large, self.fortran, self.small]


def is_as_shared(holder: Holder) -> bool:
    original = Holder()
    (block,) = {id(storage_of(array)) for array in holder.arrays()}
    return block != id(None) and all(
        (one == other).all() and one.strides == other.strides and not one.flags.writeable
        for one, other in zip(holder.arrays(), original.arrays(), strict=True)
    )


def test_all_buffers_are_in_one_block() -> None:
    st.empty(1)
    before = blocks()
    holder = Holder()
    shared = st.share({"a": holder, "text": "x" * 100})["a"]
    assert is_as_shared(shared)
    assert blocks() == before + 1
    assert all(storage_of(array) is None and array.flags.writeable for array in holder.arrays())
    last = shared.small
    del shared
    assert blocks() == before + 1, "each array keeps the block"
    del last
    assert blocks() == before


@every_dtype
def test_array_of_any_dtype_and_layout(dtype) -> None:
    source = some_array(dtype)
    for array in (source, source.T, source[::-1, 1::2], source[:, 0], source[:0]):
        shared = st.share(array)
        assert same_elements(shared, array)
        assert array.size == 0 or storage_of(shared) is not None
        assert array.size == 0 or shared.ctypes.data % 64 == 0


def test_array_of_no_dimension() -> None:
    shared = st.share(np.array(5.0))
    assert shared == 5.0
    assert storage_of(shared) is not None


def test_array_of_objects_is_private() -> None:
    before = blocks()
    shared = st.share({"names": np.array(["a", None], object), "empty": np.zeros(0), "text": b"x" * 100_000})
    assert shared["names"].tolist() == ["a", None]
    assert shared["names"].flags.writeable
    assert blocks() == before


def test_nobody_can_write() -> None:
    shared = st.share(np.ones(5))
    with pytest.raises(ValueError, match="read-only"):
        shared[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        shared.flags.writeable = True
    if (child := os.fork()) == 0:
        signal.signal(signal.SIGSEGV, lambda *_: os._exit(1))
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        import ctypes

        ctypes.memset(shared.ctypes.data, 0, 8)  # the kernel refuses it
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV


def test_shared_again_is_not_copied_again() -> None:
    shared = st.share(Holder())
    count = blocks()
    again = st.share([shared, shared.large[10:], shared.large[::-2]])
    assert blocks() == count
    assert again[0].large.ctypes.data == shared.large.ctypes.data
    assert again[1].ctypes.data == shared.large.ctypes.data + 80
    assert again[2].strides == (-16,)
    mixed = st.share({"old": shared.large, "new": np.ones(BIG)})
    assert blocks() == count + 1
    assert mixed["old"].ctypes.data == shared.large.ctypes.data


def test_memory_that_occurs_twice_is_copied_once() -> None:
    class Wrapper:
        def __init__(self, array) -> None:
            self.array = array

        def __reduce_ex__(self, protocol):
            return np.frombuffer, (pickle.PickleBuffer(self.array),)

    array = np.arange(float(BIG))
    first, second = st.share([Wrapper(array), Wrapper(array)])
    assert first.ctypes.data == second.ctypes.data
    assert storage_of(first).nbytes < 2 * array.nbytes


def test_tensors_and_arrays_over_shared_memory_stay_what_they_are() -> None:
    tensor = st.zeros(BIG)
    storage, items = st.Storage(10), st.SharedList(["a", "b"])
    before = blocks()
    shared = st.share([tensor, tensor.numpy()[5:], storage, items, tensor])
    assert blocks() == before
    shared[0][0] = 1
    shared[1][0] = 2
    assert (tensor[0].item(), tensor[5].item()) == (1, 2)
    assert shared[0] is shared[4]
    assert shared[2] is storage
    assert list(shared[3]) == ["a", "b"]
    private = st.from_numpy(np.ones(5))
    assert st.share(private).is_shared()
    assert not private.is_shared()
    del shared, tensor, storage, items
    assert st.stats()["in_flight"] == 0


def test_received_array_that_its_owner_may_write_is_copied() -> None:
    queue: st.Queue = st.Queue()
    queue.put(np.zeros(BIG))
    received = queue.get()
    shared = st.share(received)
    received[0] = 1
    assert shared[0] == 0


def answer(channel, answers) -> None:
    holder = channel.get() if hasattr(channel, "get") else channel.recv()
    answer_argument(holder, answers)


def answer_argument(holder: Holder, answers) -> None:
    count = blocks()
    answers.put(is_as_shared(holder))
    answers.put([holder, holder.large[100:]])
    assert blocks() == count


@pytest.mark.parametrize("transport", ["queue", "pipe", "argument", "st.Queue"])
def test_message_refers_to_the_block(ctx, transport) -> None:
    shared = st.share(Holder())
    before = blocks()
    answers = ctx.Queue()
    if transport == "argument":
        process = ctx.Process(target=answer_argument, args=(shared, answers))
        process.start()
        ends = []
    else:
        make = {"queue": ctx.Queue, "st.Queue": st.Queue}.get(transport)
        reader, writer = ends = (make(),) * 2 if make else ctx.Pipe(duplex=False)
        process = ctx.Process(target=answer, args=(reader, answers))
        process.start()
        writer.put(shared) if make else writer.send(shared)
    assert take(answers)
    back, part = take(answers)
    assert back.large.ctypes.data == shared.large.ctypes.data
    assert part.ctypes.data == shared.large.ctypes.data + 800
    end(process)
    answers.close()
    for one in ends:
        one.close()
    ends = one = reader = writer = make = process = answers = None
    wait_until(lambda: blocks() == before, what=lambda: f"{blocks()} blocks, {before} before")


def large_of(holder: Holder) -> np.ndarray:
    assert is_as_shared(holder)
    return holder.large


def test_pool_and_its_results_use_the_block(ctx) -> None:
    shared = st.share(Holder())
    with ctx.Pool(2) as pool:
        results = pool.map(large_of, [shared] * 4)
        pool.close()
        pool.join()
    assert {array.ctypes.data for array in results} == {shared.large.ctypes.data}


def test_message_is_short_whatever_the_number_of_buffers() -> None:
    class Wrapper:
        def __init__(self, array) -> None:
            self.array = array

        def __reduce_ex__(self, protocol):
            return np.frombuffer, (pickle.PickleBuffer(self.array),)

    globals()["Wrapper"] = Wrapper
    shared = st.share([Wrapper(np.full(1000, float(i))) for i in range(100)])
    with _core.SendScope() as scope:
        message = dumps([Wrapper(array) for array in shared])
        scope.delivered()
    assert len(message) < 100 * 40
    back = pickle.loads(message)
    assert [array[0] for array in back] == list(range(100))
    assert {id(storage_of(array)) for array in back} == {id(storage_of(shared[0]))}
    assert not back[0].flags.writeable


def test_other_pickles_have_the_elements() -> None:
    """A handle never reaches a file."""
    shared = st.share(Holder())
    stream = pickle.dumps(shared, protocol=4)  # with 5, a read-only array of NumPy stays read-only
    assert len(stream) > shared.large.nbytes
    back = pickle.loads(stream)
    assert storage_of(back.large) is None
    assert back.large.flags.writeable


def test_readers_of_a_broadcast_and_items_of_a_queue_share() -> None:
    shared = st.share(Holder())
    broadcast: st.Broadcast = st.Broadcast(4)
    readers = [broadcast.reader(), broadcast.reader()]
    broadcast.put(shared)
    for reader in readers:
        assert reader.get().large.ctypes.data == shared.large.ctypes.data
        reader.close()
    broadcast.close()


PUBLISHER = """
    import sys
    import numpy as np
    import shmtensor as st

    st.publish("table", st.share({"values": np.arange(1e6), "names": ["a", "b"]}))
    print(st.stats()["blocks"], flush=True)
    sys.stdin.readline()
"""

KEEPER = "import sys, shmtensor as st; st.empty(1); print(flush=True); sys.stdin.readline()"

READER = """
    import numpy as np
    import shmtensor as st

    for _ in range(2):
        table = st.attach("table", timeout=30)
    assert (table["values"] == np.arange(1e6)).all() and table["names"] == ["a", "b"]
    assert not table["values"].flags.writeable
    print(st.stats()["blocks"], st.stats()["bytes_live"])
    del table
    st.unpublish("table")
"""


@pytest.mark.parametrize("alive", [True, False])
def test_two_programs_share_by_name(tmp_path, alive) -> None:
    environment = {"SHMTENSOR_SESSION": str(tmp_path)}
    publisher = Peer([sys.executable, "-c", textwrap.dedent(PUBLISHER)], clean_environment(**environment))
    assert publisher.answer() == "2"  # the table's, and that of its handle
    keeper = Peer([sys.executable, "-c", KEEPER], clean_environment(**environment))
    keeper.answer()  # the session has another process
    if not alive:
        publisher.end()
    held, live = map(int, output(run_python(READER, env=environment)).split())
    assert held <= 2
    assert live < 1.1 * 8e6
    for program in [keeper, publisher] if alive else [keeper]:
        program.end()


def test_published_private_arrays_are_one_copy() -> None:
    st.publish("private", {"a": np.zeros(BIG)})
    first, second = st.attach("private")["a"], st.attach("private")["a"]
    assert first.ctypes.data == second.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1
    st.unpublish("private")


@pytest.mark.parametrize("culprit", [FailsToLoad, FailsToPickle])
def test_failure_leaves_nothing(culprit) -> None:
    tensor = st.ones(3)
    before = blocks(), st.stats()["in_flight"]
    for order in (1, -1):
        with pytest.raises(RuntimeError, match="on purpose"):
            st.share([np.zeros(BIG), tensor, culprit()][::order])
        assert (blocks(), st.stats()["in_flight"]) == before
    with pytest.raises(TypeError, match="pickle"):
        st.share([np.zeros(BIG), threading.Lock()])
    assert (blocks(), st.stats()["in_flight"]) == before


def test_exhausted_memory_is_an_error_and_leaves_nothing() -> None:
    before = blocks()
    st.set_limit(64 << 20)
    try:
        with pytest.raises(st.OutOfSharedMemory):
            st.share({"a": np.zeros(10 << 20)})
    finally:
        st.set_limit(None)
    assert blocks() == before
