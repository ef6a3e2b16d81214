"""JAX: import without a copy, and arrays that travel through shared memory."""

from __future__ import annotations

import gc
import os
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._core import storage_at
from tests.helpers.children import end
from tests.helpers.queues import take

BIG = 50_000  # elements of 4 bytes


@pytest.fixture(autouse=True)
def installed():
    st.install("jax")
    yield
    st.uninstall("jax")


def pointer(array: jax.Array) -> int:
    return array.unsafe_buffer_pointer()


def is_shared(array: jax.Array) -> bool:
    return storage_at(pointer(array), array.nbytes) is not None


def blocks() -> int:
    gc.collect()
    return st.stats()["blocks"]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "complex64", "int32"])
@pytest.mark.parametrize("load", [jnp.from_dlpack, jax.dlpack.from_dlpack], ids=["jnp", "jax"])
def test_aligned_tensors_are_imported_without_a_copy(load, dtype) -> None:
    tensor = st.ones((100, 64), dtype)
    for view in (tensor, tensor[4:], tensor[64]):
        array = load(view)
        assert pointer(array) == view.data_ptr()
        assert array.tolist() == view.tolist()
    del view, array
    gc.collect()


def test_other_views_are_imported_as_copies() -> None:
    tensor = st.zeros(100, "float32")
    array = jnp.from_dlpack(tensor[1:])
    tensor[1] = 5
    assert array[0] == 0


def test_writes_to_an_imported_tensor_are_seen() -> None:
    """JAX assumes that arrays never change: the guide advises against it."""
    tensor = st.zeros(64, "float32")
    array = jnp.from_dlpack(tensor)
    tensor[0] = 5
    assert array[0] == 5


def test_memory_lives_as_long_as_the_array() -> None:
    before = blocks()
    array = jnp.from_dlpack(st.full((1000,), 3, "float32"))
    assert blocks() == before + 1
    assert array.sum() == 3000
    del array
    assert blocks() == before


def answer(inbox: Any, outbox: Any) -> None:
    answer_argument(inbox.get(), outbox)


def answer_argument(array: jax.Array, outbox: Any) -> None:
    outbox.put((isinstance(array, jax.Array), is_shared(array), float(array.sum())))
    outbox.put(array)


@pytest.mark.parametrize("method", ["spawn", "forkserver", "server"])
@pytest.mark.parametrize("transport", ["queue", "argument"])
def test_array_arrives_over_shared_memory(method, transport) -> None:
    ctx = mp.get_context(method)
    array = jnp.arange(BIG, dtype="float32") % 7
    inbox, outbox = ctx.Queue(), ctx.Queue()
    if transport == "queue":
        process = ctx.Process(target=answer, args=(inbox, outbox))
        process.start()
        inbox.put(array)
    else:
        process = ctx.Process(target=answer_argument, args=(array, outbox))
        process.start()
    assert take(outbox, 60) == (True, True, float(array.sum()))
    back = take(outbox)
    assert is_shared(back)
    assert (back == array).all()
    assert not is_shared(array)
    end(process)


def round_trip(value: Any) -> Any:
    reader, writer = mp.Pipe()
    with reader, writer:
        writer.send(value)
        return reader.recv()


def test_array_in_shared_memory_is_sent_without_a_copy() -> None:
    array = round_trip(jnp.arange(BIG))
    before = blocks()
    again = round_trip({"array": array})["array"]
    assert blocks() == before
    assert pointer(again) == pointer(array)


def test_share_puts_a_tree_of_arrays_into_one_block() -> None:
    st.uninstall("jax")
    before = blocks()
    tree = {"w": jnp.ones((300, 7)), "b": [jnp.arange(5), jnp.ones(3, jnp.bfloat16)], "name": "layer"}
    shared = st.share(tree)
    assert blocks() == before + 1
    assert jax.tree.all(
        jax.tree.map(
            lambda one, other: (one == other).all(),
            *({key: value[key] for key in ("w", "b")} for value in (tree, shared)),
        )
    )
    for array in (shared["w"], *shared["b"]):
        assert is_shared(array)
    again = round_trip(shared)
    assert pointer(again["b"][1]) == pointer(shared["b"][1])
    st.publish("tree", shared)
    assert pointer(st.attach("tree")["w"]) == pointer(shared["w"])
    st.unpublish("tree")


def test_donated_shared_array_is_not_overwritten() -> None:
    """The memory is read-only: a write would end the process."""
    array = st.share(jnp.ones(BIG))
    kept = np.asarray(st.share(array))
    doubled = jax.jit(lambda x: x * 2, donate_argnums=0)(array)
    assert doubled[0] == 2
    assert kept[0] == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: jnp.float32(5),
        lambda: jnp.asarray(5) * 2.5,  # weak type
        lambda: jnp.zeros((0, 3)),
        lambda: jnp.ones((3, 4)).T,
        lambda: jnp.ones(BIG, "int4"),
        lambda: jax.random.PRNGKey(3),
    ],
)
def test_other_arrays_arrive_equal(make) -> None:
    array = make()
    back = round_trip(array)
    assert (back.dtype, back.shape, back.weak_type) == (array.dtype, array.shape, array.weak_type)
    assert (back == array).all()


def test_uninstall_restores_the_pickles() -> None:
    reader, writer = mp.Pipe()
    messages = []
    for change in (st.uninstall, st.install, st.uninstall):
        change("jax")
        writer.send(jnp.ones(5))
        messages.append(reader.recv_bytes())
    assert messages[0] == messages[2] != messages[1]
    reader.close()
    writer.close()
