"""A block of shared memory lives as long as an object that can reach its bytes."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.live_resources import live_resources

pytestmark = pytest.mark.usefixtures("strategy")

KEEPERS = {
    "storage": lambda t: t.storage(),
    "view": lambda t: t[1:],
    "element": lambda t: t[0, 0],
    "transpose": lambda t: t.T,
    "reshape": lambda t: t.reshape(-1),
    "as_readonly": lambda t: t.as_readonly(),
    "numpy": lambda t: t.numpy(),
    "view of the array": lambda t: t.numpy()[1:],
    "np.asarray": np.asarray,
    "memoryview": memoryview,
    "memoryview of the storage": lambda t: memoryview(t.storage()),
    "np.frombuffer of the storage": lambda t: np.frombuffer(t.storage()),
    "dlpack": np.from_dlpack,
    "capsule": lambda t: t.__dlpack__(),
    "iterator": iter,
    "wrapper": lambda t: st.from_numpy(t.numpy()),
    "in a ufunc's result": lambda t: np.add(t, 1, out=t),
}


@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
def test_objects_that_reach_the_bytes_keep_them(keep) -> None:
    before = live_resources()
    tensor = st.full((3, 4), 7.0)
    keeper = keep(tensor)
    del tensor
    assert live_resources()[0] == before[0] + 1
    other = st.full((3, 4), 9.0)  # would reuse the block if it were free
    if isinstance(keeper, np.ndarray):
        assert set(keeper.ravel()) <= {7, 8}
    del other, keeper
    assert live_resources() == before


NOT_KEEPERS = {
    "copy": lambda t: t.clone().numpy().copy(),
    "list": lambda t: t.tolist(),
    "index array": lambda t: t[[0, 1]],
    "mask": lambda t: t[t > 3],
    "sum": np.sum,
    "arithmetic": lambda t: t + 1,
    "weak reference": weakref.ref,
    "weak reference to the storage": lambda t: weakref.ref(t.storage()),
    "shape": lambda t: (t.shape, t.dtype, t.strides),
    "address": lambda t: t.data_ptr(),
    "repr": repr,
}


@pytest.mark.parametrize("keep", NOT_KEEPERS.values(), ids=NOT_KEEPERS)
def test_copies_do_not_keep_the_block(keep) -> None:
    before = live_resources()
    tensor = st.full((3, 4), 7.0)
    other = keep(tensor)
    del tensor
    assert live_resources() == before
    del other


def test_weak_references_die_with_the_tensor() -> None:
    called = []
    tensor = st.zeros(3)
    storage = weakref.ref(tensor.storage(), called.append)
    gone = weakref.ref(tensor, called.append)
    assert gone() is tensor
    assert storage() is tensor.storage()
    del tensor
    assert called == [gone, storage]
    assert gone() is None
    assert storage() is None


def test_tensors_in_cycles_are_collected() -> None:
    before = live_resources()
    cycle = [st.zeros(3)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert live_resources() == before


def test_failed_expression_frees_its_temporaries() -> None:
    before = live_resources()
    with pytest.raises(ZeroDivisionError):
        [st.zeros(3), 1 / 0]
    assert live_resources() == before


def test_many_tensors_are_created_and_freed() -> None:
    before = live_resources()
    many = [st.full(n % 50, n, "i4") for n in range(5000)]
    assert live_resources()[0] == before[0] + 5000
    assert all((tensor.numpy() == n).all() for n, tensor in enumerate(many))
    del many[::2]
    again = [st.full(n % 50, -n, "i4") for n in range(2500)]
    assert all((tensor.numpy() == 2 * n + 1).all() for n, tensor in enumerate(many))
    del many, again
    assert live_resources() == before
