"""Creating, viewing, filling and copying tensors on a GPU."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import shmtensor as st
from tests.cuda.harness import case


@case
def test_device_tensors_are_created_like_host_tensors() -> None:
    assert st.cuda.is_available()
    assert st.cuda.device_count() >= 1
    for name in ("zeros", "ones"):
        tensor = getattr(st, name)((2, 3), "i4", device="cuda")
        assert (tensor.device, tensor.shape, tensor.dtype) == ("cuda:0", (2, 3), np.int32)
        assert tensor.cpu().tolist() == getattr(np, name)((2, 3)).tolist()
    assert st.full((3,), 2.5, device="cuda:0").tolist() == [2.5, 2.5, 2.5]
    assert st.full_like(tensor, 7, "f4").device == st.empty_like(tensor).device == "cuda:0"
    assert (
        st.ones_like(tensor, device="cpu").numpy().tolist() == st.ones_like(tensor).tolist() == [[1] * 3] * 2
    )
    assert st.empty((0, 4), device="cuda").tolist() == []
    assert st.zeros((), device="cuda").item() == 0
    tensor = st.full((100_000,), 258, "i4", device="cuda")
    assert (tensor.cpu().numpy() == 258).all()
    assert tensor.is_shared()
    assert "device='cuda:0'" in repr(tensor[:3])
    storage = st.Storage(10, "cuda:0").fill_(7)
    assert (storage.device, storage.tobytes()) == ("cuda:0", b"\7" * 10)
    assert storage.clone().tobytes() == b"\7" * 10


@pytest.mark.thorough
@case
def test_device_views_match_numpy() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    tensor = st.asarray(array, device="cuda")
    for look in (
        lambda a: a[1],
        lambda a: a[:, ::2, 1:],
        lambda a: a[..., ::-1],
        lambda a: a.T,
        lambda a: a.transpose(1, 0, 2),
        lambda a: a[:, None, 1],
        lambda a: a.reshape(6, 4),
        lambda a: a.reshape(-1),
        lambda a: a.T.reshape(4, -1),
        lambda a: a[:, 0].reshape(8),
        lambda a: a.view("i8"),
        lambda a: a.reshape(2, 1, 12, 1)[1],
    ):
        expected = look(array)
        seen = look(tensor)
        assert seen.device == "cuda:0"
        assert (seen.shape, seen.dtype) == (expected.shape, expected.dtype)
        assert seen.cpu().numpy().tolist() == expected.tolist()
    assert tensor[0].storage() is tensor.storage()
    assert tensor.T.reshape(24).storage() is not tensor.storage(), "needs a copy"
    with pytest.raises(ValueError, match="needs a copy"):
        tensor.T.view(24)
    with pytest.raises(ValueError, match="cannot reshape"):
        tensor.reshape(5, -1)
    with pytest.raises(ValueError, match="cannot reshape"):
        st.empty(0, device="cuda").reshape(1 << 32, 1 << 32)  # 2**64 elements, not 0
    with pytest.raises(TypeError, match="cupy"):
        tensor[[0, 1]]
    with pytest.raises(TypeError, match="cupy"):
        tensor[np.ones(2, bool)]


@pytest.mark.thorough
@case
def test_copies_work_in_every_direction() -> None:
    array = np.arange(60, dtype="i2").reshape(3, 4, 5)
    tensor = st.zeros(array.shape, "i2", device="cuda")
    tensor[:, 1:3, ::2] = array[:, 1:3, ::2]
    expected = np.zeros_like(array)
    expected[:, 1:3, ::2] = array[:, 1:3, ::2]
    assert tensor.tolist() == expected.tolist()
    tensor.copy_(array.astype("f8"))
    assert tensor.tolist() == array.tolist(), "converted"
    tensor[0] = 9
    assert tensor[0].tolist() == np.full((4, 5), 9).tolist(), "broadcast"
    other = st.empty((5, 4, 3), "i2", device="cuda").copy_(tensor.T)
    assert other.tolist() == tensor.cpu().numpy().T.tolist()
    host = st.empty(array.shape, "i8").copy_(tensor)
    assert host.device == "cpu"
    assert host.tolist() == tensor.tolist()
    back = host.to("cuda:0")
    assert (back.device, back.tolist()) == ("cuda:0", tensor.tolist())
    assert tensor.to("cuda") is tensor
    assert tensor.clone().tolist() == copy.deepcopy(tensor).tolist() == tensor.tolist()
    assert st.asarray(tensor) is tensor
    assert st.asarray(tensor, "f4").dtype == np.float32
    assert st.asarray(tensor, device="cpu").device == "cpu"
    assert tensor.zero_().cpu().numpy().any() is np.False_
    again = pickle.loads(pickle.dumps(back))
    assert (again.device, again.tolist()) == ("cuda:0", back.tolist())


@case
def test_host_access_to_device_memory_raises() -> None:
    tensor = st.ones(3, device="cuda")
    by_numpy = [lambda: np.asarray(tensor), lambda: tensor + 1, lambda: np.add(1, 1, out=tensor)]
    by_numpy += [tensor.numpy, lambda: tensor.numpy(private=True), lambda: np.sum([1], where=tensor)]
    for look in (lambda: memoryview(tensor), *by_numpy):
        with pytest.raises((TypeError, BufferError), match=r"cuda:0.*cpu\(\)"):
            look()
    with pytest.raises(AttributeError, match=r"use \.cupy\(\)\.sum"):
        _ = tensor.sum
    assert not hasattr(tensor, "__array_interface__")
    assert not hasattr(st.ones(3), "__cuda_array_interface__")
    with pytest.raises(BufferError, match="cuda:0"):
        memoryview(tensor.storage())
    readonly = tensor.as_readonly()
    for write in (lambda: readonly.fill_(1), lambda: readonly.copy_([1, 2, 3]), readonly.zero_):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(ValueError, match="unknown"):
        st.ones(3, device="cuda:x")
    with pytest.raises(st.CudaError, match="CUDA_VISIBLE_DEVICES"):
        st.ones(3, device="cuda:99")


@case
def test_structured_and_unusual_dtypes_are_copied() -> None:
    kind = np.dtype([("a", "i2"), ("b", "f8")])
    array = np.array([(1, 2.5), (3, 4.5)], kind)
    tensor = st.asarray(array, device="cuda")
    assert tensor["b"].tolist() == [2.5, 4.5]
    assert tensor.cpu().numpy().tolist() == array.tolist()
    big = st.asarray(np.arange(3, dtype=">i4"), device="cuda")
    assert big.tolist() == [0, 1, 2]


@case
def test_device_memory_is_freed() -> None:
    from tests.cuda import device

    first = st.zeros(1 << 20, "u1", device="cuda")
    full = device.used_bytes()
    address = first.data_ptr()
    del first
    second = st.zeros(1 << 20, "u1", device="cuda")
    assert second.data_ptr() == address, "freed blocks are reused"
    del second
    st.cuda.ipc_collect()
    device.wait_until(lambda: device.used_bytes() <= full - (60 << 20), "an idle chunk goes back")
    assert st.zeros(3, device="cuda").tolist() == [0, 0, 0]
