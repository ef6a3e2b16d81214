"""as_readonly: a view of the same memory that refuses every kind of write."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

pytestmark = pytest.mark.usefixtures("strategy")

WRITES = {
    "setitem": lambda t: t.__setitem__(0, 1),
    "setitem by mask": lambda t: t.__setitem__(t > 1, 1),
    "setitem of a view": lambda t: t[1:].__setitem__(..., 1),
    "fill_": lambda t: t.fill_(1),
    "zero_": lambda t: t.zero_(),
    "copy_": lambda t: t.copy_([7, 7, 7]),
    "+=": lambda t: t.__iadd__(1),
    "*=": lambda t: t.__imul__(2),
    "ufunc out": lambda t: np.add(t, 1, out=t),
    "ufunc at": lambda t: np.add.at(t, 0, 1),
    "numpy": lambda t: t.numpy().__setitem__(0, 1),
    "numpy of a view": lambda t: t[::-1].numpy().fill(1),
    "asarray": lambda t: np.asarray(t).__setitem__(0, 1),
    "flags": lambda t: setattr(np.asarray(t).flags, "writeable", True),
    "reshape": lambda t: t.reshape(3, 1).fill_(1),
    "view": lambda t: t.view("u1").fill_(1),
    "transpose": lambda t: t.T.fill_(1),
    "iteration": lambda t: next(iter(t)).fill_(1),
    "as_readonly again": lambda t: t.as_readonly().fill_(1),
    "asarray of it": lambda t: st.asarray(t).fill_(1),
    "from_numpy of it": lambda t: st.from_numpy(t.numpy()).fill_(1),
    "np.copyto": lambda t: np.copyto(t.numpy(), 1),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_readonly_tensor_rejects_every_write(write) -> None:
    tensor = st.asarray([5.0, 6, 7])
    with pytest.raises(ValueError, match=r"read-only|cannot set WRITEABLE"):
        write(tensor.as_readonly())
    assert tensor.tolist() == [5, 6, 7]


def test_buffers_of_readonly_tensor_are_readonly() -> None:
    tensor = st.asarray([5, 6, 7]).as_readonly()
    view = memoryview(tensor)
    assert view.readonly
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 1
    with pytest.raises((BufferError, ValueError), match=r"read-only|writ"):
        np.frombuffer(tensor, "i8").__setitem__(0, 1)


def test_readonly_tensor_shows_writes_of_others() -> None:
    tensor = st.zeros(3)
    readonly = tensor.as_readonly()
    assert (readonly.readonly, tensor.readonly) == (True, False)
    assert readonly.storage() is tensor.storage()
    assert not readonly.storage().readonly, "the storage itself is writable"
    tensor[1] = 4
    assert readonly.tolist() == [0, 4, 0]


def test_copies_of_readonly_tensor_are_writable() -> None:
    readonly = st.asarray([5, 6, 7]).as_readonly()
    for copy in (readonly.clone(), st.asarray(readonly, copy=True), st.asarray(readonly, "f4")):
        assert not copy.readonly
        copy.fill_(1)
    assert readonly.tolist() == [5, 6, 7]


def test_readonly_flag_cannot_be_set() -> None:
    tensor = st.zeros(3)
    for name in ("readonly", "shape", "strides", "dtype", "foo"):
        if name == "foo" and hasattr(tensor, "__dict__"):
            continue  # the mixin of NumPy before 1.25 defines one
        with pytest.raises(AttributeError):
            setattr(tensor, name, False)


def test_tensor_over_readonly_storage_is_readonly() -> None:
    storage = st.frombuffer(b"12345678", "u1").storage()
    tensor = st.Tensor(storage, "u1", 8, readonly=False)
    assert tensor.readonly
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 1
