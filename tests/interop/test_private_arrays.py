"""numpy(private=True): a writable array whose writes no tensor and no other process sees."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest

import shmtensor as st
import shmtensor._core as _core
from tests.helpers.children import fork, output, run_beside

MIB = 1 << 20


def copied() -> int:
    """Return the private memory of this process, in bytes."""
    return 1024 * int(re.search(r"RssAnon:\s*(\d+)", Path("/proc/self/status").read_text())[1])


def readonly(nbytes: int = MIB) -> st.Tensor:
    return st.zeros(nbytes, "u1").as_readonly()


def mappings() -> int:
    """Return how many mappings of shared memory this process has."""
    return Path("/proc/self/maps").read_text().count("memfd:") + Path("/proc/self/maps").read_text().count(
        "/dev/shm/"
    )


def test_processes_fine_tune_one_model() -> None:
    assert output(run_beside(__file__, "fine_tuning")) == "the model is as it was\n"


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("nbytes", [1, 1000, 64 * 1024, MIB + 1])
@pytest.mark.parametrize("is_readonly", [False, True])
def test_writes_stay_in_the_array(nbytes: int, is_readonly: bool) -> None:
    tensor = st.zeros(nbytes, "u1")
    mine, other = ((tensor.as_readonly() if is_readonly else tensor).numpy(private=True) for _ in range(2))
    mine += 3
    assert mine.flags.writeable
    assert (mine == 3).all()
    assert not tensor.numpy().any()
    assert not other.any()


def test_default_shares_the_memory() -> None:
    tensor = st.zeros(MIB, "u1")
    for array in (tensor.numpy(), tensor.numpy(private=False)):
        assert array.__array_interface__["data"] == (tensor.data_ptr(), False)
    assert not tensor.as_readonly().numpy(private=False).flags.writeable


def test_only_written_pages_take_memory() -> None:
    tensor = readonly(64 * MIB)
    before = copied()
    mine = tensor.numpy(private=True)
    assert not mine.any()
    assert copied() - before < 4 * MIB
    mine[: 16 * MIB] = 1
    assert 16 * MIB <= copied() - before < 20 * MIB
    del mine
    assert copied() - before < 4 * MIB


def test_array_keeps_the_memory_of_its_tensor() -> None:
    tensor = st.asarray(np.arange(MIB)).as_readonly()
    mine = tensor.numpy(private=True)[10:]
    blocks = st.stats()["blocks"]
    del tensor
    assert st.stats()["blocks"] == blocks
    mine[0] = 7
    assert mine[:3].tolist() == [7, 11, 12]
    del mine
    assert st.stats()["blocks"] == blocks - 1


def test_mapping_ends_with_the_array() -> None:
    tensor = readonly()
    before = mappings()
    mine = tensor.numpy(private=True)
    assert mappings() == before + 1
    del mine
    assert mappings() == before


def test_memory_that_is_used_again_has_no_earlier_page() -> None:
    places = set()
    for number in range(20):
        tensor = st.full(MIB, number, "u1").as_readonly()
        places.add(tensor.data_ptr())
        mine = tensor.numpy(private=True)
        assert (mine == number).all()
        mine += 100
        assert (mine == number + 100).all()
        del tensor, mine
    assert len(places) < 20, "no memory was used again"


VIEWS = {
    "transposed": lambda t: t.T,
    "reversed": lambda t: t[::-1, ::-2],
    "column": lambda t: t[:, 3],
    "rows": lambda t: t[5:400],
    "small": lambda t: t[2:4, 5:7],
    "one element": lambda t: t[1, 1],
    "without elements": lambda t: t[5:5],
    "another dtype": lambda t: t.view("u1"),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views(view) -> None:
    tensor = st.asarray(np.arange(512 * 512).reshape(512, 512))
    expected = tensor.numpy().copy()
    part = view(tensor.as_readonly())
    mine = part.numpy(private=True)
    assert (mine.shape, mine.dtype) == (part.shape, part.dtype)
    assert np.array_equal(mine, part)
    mine[...] = 1
    assert (mine == 1).all()
    assert np.array_equal(tensor, expected)


def test_elements_that_overlap_in_the_tensor_do_not_in_the_array() -> None:
    for count in (3, MIB):
        mine = st.from_numpy(np.broadcast_to(readonly()[:1], count)).numpy(private=True)
        mine[0] = 1
        assert mine.sum() == 1


def test_private_tensor_is_copied() -> None:
    for array in (np.zeros(MIB, "u1"), np.frombuffer(bytes(MIB), "u1")):
        mine = st.from_numpy(array).numpy(private=True)
        mine[:] = 1
        assert not array.any()


@pytest.mark.parametrize("is_readonly", [False, True])
def test_tensor_in_a_file_is_copied(tmp_path, is_readonly: bool) -> None:
    (tmp_path / "file").write_bytes(bytes(MIB))
    storage = st.Storage.from_file(tmp_path / "file", readonly=is_readonly)
    mine = st.Tensor(storage, "u1", (MIB,)).numpy(private=True)
    mine[:] = 1
    assert not any((tmp_path / "file").read_bytes())


def test_tensor_is_copied_if_the_kernel_refuses_a_mapping(monkeypatch) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    tensor = readonly()
    monkeypatch.setattr(_core, "PrivateView", refuse)
    mine = tensor.numpy(private=True)
    mine[:] = 1
    assert not tensor.numpy().any()


def test_arrays_of_shared_objects() -> None:
    shared = st.share({"table": np.ones(MIB)})
    mine = st.from_numpy(shared["table"]).numpy(private=True)
    mine *= 2
    assert (mine.sum(), shared["table"].sum()) == (2 * MIB, MIB)


def test_forked_child_has_pages_of_its_own() -> None:
    tensor = readonly()
    mine = tensor.numpy(private=True)
    mine[0] = 1

    def work() -> None:
        assert mine[0] == 1
        mine[:2] = 2
        assert not tensor.numpy().any()

    assert os.waitstatus_to_exitcode(os.waitpid(fork(work), 0)[1]) == 0
    assert mine[:2].tolist() == [1, 0]


def test_array_is_sent_as_it_is() -> None:
    mine = readonly().numpy(private=True)
    mine[5] = 1
    queue: st.Queue[np.ndarray] = st.Queue()
    queue.put(mine)
    found = queue.get()
    found[6] = 1
    assert (found.sum(), mine.sum()) == (2, 1)


def test_wrong_arguments_are_refused() -> None:
    tensor = st.zeros(3)
    with pytest.raises(TypeError):
        tensor.numpy(True)  # type: ignore[misc]
    with pytest.raises(TypeError):
        tensor.numpy(copy=True)  # type: ignore[call-arg]
    tensor.release()
    with pytest.raises(ValueError, match="released"):
        tensor.numpy(private=True)
