"""What arrives of torch's tensors and storages, with the integration and without."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from multiprocessing.reduction import ForkingPickler

import ml_dtypes  # noqa: F401 - registers bfloat16
import numpy as np
import pytest
import torch
from torch.nn.parameter import Parameter

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import run_python

pytestmark = pytest.mark.usefixtures("torch_installed")

CPU_DTYPES = [
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and not str(dtype).startswith(("torch.q", "torch.bits"))
]


@pytest.fixture
def _alias(torch_installed):
    st.install("torch", alias=True)


def sent(obj):
    """Return what a receiver in this process gets."""
    return pickle.loads(ForkingPickler.dumps(obj))


def content(storage) -> bytes:
    return bytes(torch.tensor([], dtype=torch.uint8).set_(storage).numpy())


@pytest.mark.parametrize("dtype", sorted(set(CPU_DTYPES), key=str), ids=str)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_every_dtype_arrives(dtype) -> None:
    storage = torch.arange(240, dtype=torch.uint8).untyped_storage()
    try:
        tensor = torch.empty(0, dtype=dtype).set_(storage, 2, (2, 3), (1, 2))
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"torch has no such tensors: {error}")
    found = sent(tensor)
    assert (found.dtype, found.size(), found.stride(), found.storage_offset()) == (dtype, (2, 3), (1, 2), 2)
    assert content(found.untyped_storage()) == content(storage)
    assert found.is_shared()
    assert not tensor.is_shared()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[1:, ::2],
        lambda x: x[:, None].expand(4, 7, 6),
        lambda x: x[2, 3],
        lambda x: x[:0],
        lambda x: torch.empty(0),
        lambda x: torch.empty(3, 0, 2),
        lambda x: torch.tensor(5),
        lambda x: x.to(torch.bfloat16),
        lambda x: x > 3,
        Parameter,
        lambda x: Parameter(x > 3, requires_grad=False),
        lambda x: x.clone().requires_grad_(),
        lambda x: x.to_sparse(),
        lambda x: x.to_sparse_csr(),
        lambda x: x.to("meta"),
        lambda x: torch.complex(x, x),
        lambda x: torch.nn.Linear(3, 2),
        lambda x: torch.nn.LSTM(3, 2).state_dict(),
        lambda x: {"a": [x, (x[1], None)], "b": 2},
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_result_equals_that_of_torch(make) -> None:
    torch.manual_seed(0)
    obj = make(torch.arange(24.0).view(4, 6))
    ours = sent(obj)
    st.uninstall("torch")
    theirs = sent(obj)
    assert described(ours) == described(theirs)


def described(obj):
    """Return everything that a program may see of an object with tensors."""
    if isinstance(obj, torch.nn.Module):
        obj = obj.state_dict(keep_vars=True)
    if isinstance(obj, dict):
        return {key: described(value) for key, value in obj.items()}
    if isinstance(obj, (list, tuple)):
        return [described(value) for value in obj]
    if not isinstance(obj, torch.Tensor):
        return obj
    facts = type(obj), obj.dtype, obj.layout, obj.device, obj.requires_grad, obj.is_leaf, obj._is_view()
    if obj.layout is not torch.strided or obj.device.type == "meta":
        return *facts, obj.shape, str(obj)
    return *facts, obj.size(), obj.stride(), obj.storage_offset(), obj.tolist()


def test_views_share_their_storage_in_one_message() -> None:
    base = torch.arange(12.0)
    first, second, third, storage = sent((base, base.view(3, 4).T, base[2:], base.untyped_storage()))
    first[2] = 100
    assert second[2, 0] == third[0] == 100
    assert storage.data_ptr() == first.data_ptr()
    assert len({x.untyped_storage()._cdata for x in (first, second, third)} | {storage._cdata}) == 1
    assert base[2] == 2, "the sender's tensor is its own"


def test_views_of_one_block_share_their_storage_in_several_messages() -> None:
    base = sent(torch.arange(12.0))  # in shared memory
    first, second = sent(base[1:]), sent(base[3:].view(3, 3))
    assert first.untyped_storage()._cdata == second.untyped_storage()._cdata == base.untyped_storage()._cdata
    second[0, 0] = -1
    assert base[3] == first[2] == -1


def test_tied_parameters_stay_tied() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    found = sent(model)
    assert found[1].weight is found[0].weight


def test_view_of_a_large_private_storage_is_sent_without_the_rest() -> None:
    data = torch.arange(1 << 20)
    found = sent(data.view(1024, 1024)[3, 10:20])
    assert found.tolist() == list(range(3 * 1024 + 10, 3 * 1024 + 20))
    assert found.untyped_storage().nbytes() == 80
    most = sent(data[10:])
    assert most.untyped_storage().nbytes() == data.nbytes
    assert most.storage_offset() == 10


def test_tensor_over_a_block_is_not_copied() -> None:
    tensor = st.zeros((64, 64), "f4")
    view = torch.from_dlpack(tensor)
    blocks = st.stats()["blocks"]
    found = sent(view[3:, ::2])
    assert st.stats()["blocks"] == blocks
    found[0, 1] = 5
    assert tensor.numpy()[3, 2] == 5
    assert torch.from_numpy(tensor.numpy()[5]).storage_offset() == 0
    row = sent(torch.from_numpy(tensor.numpy()[5]))
    row[:] = 7
    assert tensor.numpy()[5].tolist() == [7] * 64


def test_torch_keeps_the_memory_of_a_tensor_that_it_sent() -> None:
    """Regression: torch copied the tensor and cut the sender's view off from shared memory."""
    tensor = st.zeros(5)
    view = torch.from_dlpack(tensor)
    sent(view)
    view[0] = 1
    tensor[1] = 2
    assert tensor.tolist() == view.tolist() == [1, 2, 0, 0, 0]


def test_tensor_over_a_file_is_not_copied(tmp_path) -> None:
    storage = st.Storage.from_file(tmp_path / "file", nbytes=4096)
    found = sent(torch.frombuffer(storage, dtype=torch.float32)[3:5])
    found[0] = 2
    assert memoryview(storage).cast("f")[3] == 2


def test_misaligned_view_of_a_block_keeps_the_memory() -> None:
    content = st.zeros(21, "u1")
    view = torch.frombuffer(memoryview(content)[1:], dtype=torch.float32)
    found = sent(view)
    found[1] = 3
    assert view[1] == 3


def test_bare_storages_arrive() -> None:
    tensor = torch.arange(3.0)
    for storage in (tensor.untyped_storage(), torch.UntypedStorage(0)):
        assert content(sent(storage)) == content(storage)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates them
        typed = sent(tensor.storage())
        assert isinstance(typed, type(tensor.storage()))
        assert typed.tolist() == [0, 1, 2]


def test_received_tensor_that_is_sent_on_is_the_same_memory() -> None:
    first = sent(torch.zeros(3))
    second = sent(first)
    second[1] = 4
    assert first.tolist() == [0, 4, 0]


def test_sender_s_tensor_does_not_change() -> None:
    tensor = torch.zeros(3)
    address, array = tensor.data_ptr(), tensor.numpy()
    found = sent(tensor)
    found[0] = 1
    array[1] = 2
    assert tensor.data_ptr() == address
    assert tensor.tolist() == [0, 2, 0]


@pytest.mark.usefixtures("_alias")
def test_sender_and_receiver_share_with_alias() -> None:
    tensor = torch.zeros(3, 4)
    view, row = tensor.T, tensor[1]
    found = sent(row)
    found[2] = 5
    assert tensor[1, 2] == view[2, 1] == row[2] == 5
    assert sent(tensor).untyped_storage()._cdata == tensor.untyped_storage()._cdata
    assert tensor.is_shared()


def test_share_memory_moves_a_module_for_hogwild() -> None:
    model = torch.nn.Linear(4, 4)
    weight = model.weight
    assert not weight.is_shared()
    model.share_memory()
    assert weight.is_shared()
    assert sent(weight).data_ptr() == weight.data_ptr()
    other = sent(model)
    with torch.no_grad():
        other.weight[0, 0] = 42
    assert weight[0, 0] == 42
    assert model.weight.untyped_storage().is_shared()


def test_storage_that_torch_shared_before_stays_shared() -> None:
    st.uninstall("torch")
    tensor = torch.zeros(3).share_memory_()
    st.install("torch")
    assert tensor.is_shared()
    sent(tensor)[0] = 1
    assert tensor[0] == 1


def test_uninstall_restores_torch() -> None:
    st.uninstall("torch")
    table = ForkingPickler._extra_reducers
    from torch.multiprocessing import reductions
    from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

    assert table[torch.Tensor] is table[Parameter] is reductions.reduce_tensor
    assert table[torch.UntypedStorage] is reductions.reduce_storage
    assert default_collate_fn_map[torch.Tensor] is collate_tensor_fn
    assert st.Tensor not in default_collate_fn_map
    assert "is_shared" not in vars(torch.UntypedStorage) or not torch.zeros(3).is_shared()
    assert "server" not in torch.multiprocessing.get_all_start_methods()
    ours = st.asarray(np.zeros(3))
    assert not torch.from_dlpack(ours).is_shared(), "torch does not know this memory"


def test_tensor_that_requires_a_gradient_is_refused_as_by_torch() -> None:
    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        sent(torch.ones(3, requires_grad=True) * 2)


def test_hooks_are_warned_of_as_by_torch() -> None:
    tensor = torch.ones(3, requires_grad=True)
    tensor.register_hook(print)
    with pytest.warns(UserWarning, match="backward hook"):
        assert sent(tensor).requires_grad


class Named(torch.Tensor):
    """A subclass, which torch does not register."""


def test_subclass_goes_torch_s_way() -> None:
    found = []
    for _ in range(2):
        found.append(sent(torch.arange(3).as_subclass(Named)))
        st.uninstall("torch")
    ours, theirs = found
    assert type(ours) is type(theirs) is Named
    assert ours.tolist() == theirs.tolist()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantized_tensor_goes_torch_s_way() -> None:
    tensor = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    found = []
    for _ in range(2):
        try:
            found.append(str(sent(tensor)))
        except Exception as error:  # torch 2.13 cannot rebuild it
            found.append(repr(error))
        st.uninstall("torch")
    assert found[0] == found[1]


@pytest.mark.parametrize("make", [lambda: torch.ones(1000), lambda: torch.from_dlpack(st.ones(1000, "f4"))])
def test_no_handle_outside_of_messages(make) -> None:
    tensor = make()
    file = io.BytesIO()
    torch.save(tensor, file)
    assert len(file.getvalue()) > 4000
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert len(pickle.dumps(tensor, protocol)) > 4000
    for copied in (copy.deepcopy(tensor), torch.load(io.BytesIO(file.getvalue()))):
        copied[0] = 5
        assert tensor[0] == 1


def test_bfloat16_in_and_out() -> None:
    source = torch.tensor([[1.5, -2.0], [3.0, 0.25]], dtype=torch.bfloat16)
    shared = st.asarray(source.T)
    assert shared.dtype == np.dtype("bfloat16")
    assert shared.numpy().astype("f4").tolist() == source.T.tolist()
    wrapped = st.from_dlpack(source)
    assert not wrapped.is_shared()
    assert wrapped.data_ptr() == source.data_ptr()
    back = torch.from_dlpack(shared)
    assert back.dtype == torch.bfloat16
    assert back.equal(source.T)
    back[0, 0] = 7
    assert float(shared.numpy()[0, 0]) == 7
    assert sent(back).data_ptr() == back.data_ptr()


def test_queue_of_ours_takes_torch_tensors() -> None:
    """A small view of a large storage that the message has shares it, too."""
    with st.Queue() as queue:
        tensor = torch.arange(100_000)
        queue.put({"a": tensor, "b": [tensor[:3], torch.tensor(1)]})
        found = queue.get()
        queue.put(tensor[:3])
        assert queue.get().untyped_storage().nbytes() == 24, "the message before is forgotten"
    assert found["a"].equal(tensor)
    assert found["b"][0].untyped_storage()._cdata == found["a"].untyped_storage()._cdata


def test_published_tensors() -> None:
    st.publish("tests/torch", {"weight": torch.arange(3.0)})
    first, second = st.attach("tests/torch"), st.attach("tests/torch")
    st.unpublish("tests/torch")
    first["weight"][0] = 9
    assert second["weight"].tolist() == [9, 1, 2]


def test_set_up_when_torch_is_imported_later() -> None:
    program = """
        import sys
        import shmtensor as st
        from multiprocessing.reduction import ForkingPickler
        st.install("torch")
        assert "torch" not in sys.modules
        import torch
        assert len(ForkingPickler.dumps(torch.ones(1000))) < 1000
        assert ForkingPickler._extra_reducers[torch.Tensor].__module__.startswith("shmtensor")
    """
    done = run_python(program)
    assert done.returncode == 0, done.stderr


def test_mp_context_of_ours_is_known_by_name() -> None:
    assert torch.multiprocessing.get_context("server") is mp.get_context("server")
    assert torch.multiprocessing.get_context("fork") is not mp.get_context("fork")
