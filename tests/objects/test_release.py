"""`release` ends one tensor's use of its memory; what was made from the tensor keeps the memory."""

from __future__ import annotations

import copy
import operator
import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import running
from tests.helpers.live_resources import live_resources
from tests.objects.test_lifetime import KEEPERS

RELEASED = "the tensor was released"


def released() -> st.Tensor:
    tensor = st.ones((3, 4))
    tensor.release()
    return tensor


def test_release_frees_the_block_though_variables_refer_to_the_tensor() -> None:
    before = live_resources()
    tensor = st.ones((3, 4))
    shown = [tensor]
    tensor.release()
    assert live_resources() == before
    tensor.release()
    assert repr(shown) == "[Tensor(released)]"
    assert f"{tensor}" == str(tensor) == "Tensor(released)"


def test_leaving_a_with_block_releases() -> None:
    before = live_resources()
    with st.ones(3) as tensor:
        assert tensor.tolist() == [1, 1, 1]
    assert live_resources() == before
    with pytest.raises(KeyError), st.ones(3) as tensor:
        raise KeyError
    assert live_resources() == before
    with pytest.raises(ValueError, match=RELEASED), tensor:
        pass


USES = {
    **{name: operator.attrgetter(name) for name in ("shape", "strides", "dtype", "ndim", "size", "itemsize")},
    **{
        name: operator.attrgetter(name)
        for name in ("nbytes", "readonly", "device", "T", "__array_interface__")
    },
    **{
        name: operator.methodcaller(name)
        for name in ("storage", "storage_offset", "data_ptr", "is_contiguous", "is_shared", "share_memory_")
    },
    **{
        name: operator.methodcaller(name)
        for name in ("numpy", "tolist", "clone", "flatten", "ravel", "squeeze", "zero_", "as_readonly", "cpu")
    },
    **{name: operator.methodcaller(name) for name in ("__dlpack__", "__dlpack_device__", "__array__")},
    "item": lambda t: t.item(0, 0),
    "reshape": lambda t: t.reshape(12),
    "view": lambda t: t.view("u1"),
    "copy_": lambda t: t.copy_(1),
    "fill_": lambda t: t.fill_(1),
    "len": len,
    "iter": iter,
    "bool": bool,
    "get an element": lambda t: t[0, 0],
    "get by a mask": lambda t: t[[True, False, True]],
    "set an element": lambda t: operator.setitem(t, 0, 1),
    "set by a tensor": lambda t: operator.setitem(t, 0, st.ones(4)),
    "in": lambda t: 1 in t,
    "memoryview": memoryview,
    "bytes": bytes,
    "np.asarray": np.asarray,
    "np.ndarray": lambda t: np.ndarray(12, buffer=t),
    "np.sum": np.sum,
    "np.add": lambda t: t + 1,
    "np.add at": lambda t: np.add.at(t, 0, 1),
    "np.add into": lambda t: np.add(1, 2, out=t),
    "==": lambda t: t == 1,
    "st.asarray": st.asarray,
    "st.stack": lambda t: st.stack([t]),
    "copy_ from": lambda t: st.ones((3, 4)).copy_(t),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "send": ForkingPickler.dumps,
    "publish": lambda t: st.publish("released", t),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_every_later_use_raises(use) -> None:
    with pytest.raises(ValueError, match=RELEASED):
        use(released())


def test_queues_refuse_a_released_tensor() -> None:
    queue = st.Queue()
    for item in (released(), (1, released()), {"a": released()}):
        with pytest.raises(ValueError, match=RELEASED):
            queue.put(item)
    assert queue.empty()


def test_iterators_end_with_the_error() -> None:
    tensor = st.ones(3)
    rows = iter(tensor)
    next(rows)
    tensor.release()
    with pytest.raises(ValueError, match=RELEASED):
        next(rows)


def test_missing_attributes_are_missing() -> None:
    assert not hasattr(released(), "sum")
    assert not hasattr(released(), "_repr_png_")


class Interface:
    def __init__(self, tensor: st.Tensor) -> None:
        self.__array_interface__ = tensor.__array_interface__
        self.tensor = tensor


CONSUMERS = {
    name: keep for name, keep in KEEPERS.items() if name not in {"iterator", "in a ufunc's result"}
} | {
    "np.frombuffer": np.frombuffer,
    "np.ndarray": lambda t: np.ndarray((3, 4), buffer=t),
    "interface": lambda t: np.asarray(Interface(t)),
    "read-only memoryview": lambda t: memoryview(t.as_readonly()),
    "buffer of a view": lambda t: memoryview(t.T),
}


@pytest.mark.parametrize("keep", CONSUMERS.values(), ids=CONSUMERS)
def test_what_was_made_from_the_tensor_keeps_the_memory(keep) -> None:
    before = live_resources()
    tensor = st.full((3, 4), 7.0)
    keeper = keep(tensor)
    tensor.release()
    assert live_resources()[0] == before[0] + 1
    other = st.full((3, 4), 9.0)  # would reuse the block if it were free
    if isinstance(keeper, (np.ndarray, memoryview)):
        assert set(np.frombuffer(memoryview(keeper).tobytes(), "f8")) == {7}
    del other, keeper, tensor
    assert live_resources() == before


def test_consumers_that_end_their_buffers_keep_nothing() -> None:
    before = live_resources()
    tensor = st.ones((3, 4))
    for view in (memoryview(tensor), np.asarray(tensor), np.frombuffer(tensor)):
        del view
    assert len(bytes(tensor)) == 96
    tensor.release()
    assert live_resources() == before


def test_dtypes_without_a_buffer_keep_the_memory_through_the_interface() -> None:
    tensor = st.zeros(3, "datetime64[s]")
    array = np.asarray(tensor)
    tensor.release()
    other = st.ones(3, "i8")
    assert array.view("i8").tolist() == [0, 0, 0]
    del other


def test_a_message_outlives_the_release_of_its_tensor() -> None:
    queue = st.Queue()
    with st.full(1000, 5.0) as tensor:
        queue.put(tensor)
        queue.put([tensor, 1])
    other = st.full(1000, 6.0)
    assert queue.get()[0].item() == queue.get()[0][0].item() == 5
    del other


def _release(tensor: st.Tensor, queue: st.Queue[str]) -> None:
    tensor.release()
    queue.put(repr(tensor))


def test_other_processes_are_not_affected(start_method) -> None:
    context = mp.get_context(start_method)
    tensor, queue = st.ones(3), st.Queue[str]()
    with running(context, _release, tensor, queue):
        assert queue.get(timeout=60) == "Tensor(released)"
    assert tensor.tolist() == [1, 1, 1]
    queue.close()


def test_private_memory_is_released() -> None:
    array = bytearray(8)
    tensor = st.frombuffer(array, "u1")
    with pytest.raises(BufferError):
        array.append(1)
    tensor.release()
    array.append(1)


def test_threads_use_the_memory_or_get_the_error() -> None:
    """Another thread's array never shows memory that a later tensor uses."""
    before = live_resources()
    errors: list[object] = []

    def use(tensor: st.Tensor, start: threading.Barrier) -> None:
        start.wait(60)
        try:
            while True:
                seen = {
                    *tensor[1:].tolist(),
                    *np.asarray(tensor).tolist(),
                    *bytes(tensor[:1].numpy().view("u1")),
                }
                if not seen <= {0, 1, 63, 240}:
                    errors.append(seen)
                pickle.loads(ForkingPickler.dumps(tensor))
        except ValueError as error:
            if str(error) != RELEASED:
                errors.append(error)
        except BaseException as error:
            errors.append(error)

    for _ in range(30):
        tensor, start = st.ones(1000), threading.Barrier(4)
        threads = [threading.Thread(target=use, args=(tensor, start)) for _ in range(3)]
        for thread in threads:
            thread.start()
        start.wait(60)
        tensor.release()
        other = st.full(1000, 9.0)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        del other
    assert errors == []
    assert live_resources() == before
