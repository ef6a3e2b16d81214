"""Threads that create, slice, send and release the same memory. The leak guard checks what remains."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.threads import DEADLINE, run_together

pytestmark = pytest.mark.usefixtures("strategy")

THREADS = 4
STEPS = 300
NUMBERS = np.arange(1000)


def send_slices(tensor: st.Tensor, queue: st.Queue) -> None:
    for step in range(STEPS):
        queue.put((step, tensor[step : step + 10], [tensor[step]]))
        begin, view, (first,) = queue.get(timeout=DEADLINE)
        assert view.storage() is tensor.storage() is first.storage(), "one block is one storage"
        assert (view.numpy() == NUMBERS[begin : begin + 10]).all()
        assert int(first) == begin


def test_threads_send_slices_of_one_tensor() -> None:
    queue: st.Queue = st.Queue()
    run_together(*[partial(send_slices, st.asarray(NUMBERS), queue)] * THREADS)
    assert queue.empty()


def pass_on(queue: st.Queue, check: Any) -> None:
    for _ in range(STEPS):
        item = queue.get(timeout=DEADLINE)
        check(item)
        queue.put(item)
        del item  # perhaps the last of this process, while another thread receives it


def check_tensor(tensor: st.Tensor) -> None:
    assert (tensor[::-1].numpy() == NUMBERS[::-1]).all()


def check_dict(shared: st.SharedDict) -> None:
    assert shared["step"] == 7
    assert (shared["nested"]["numbers"] == NUMBERS).all()


def check_list(shared: st.SharedList) -> None:
    assert shared[1] == "text"
    assert (shared[::-1][0] == NUMBERS).all()


@pytest.mark.parametrize(
    ("make", "check"),
    [
        (lambda: st.asarray(NUMBERS), check_tensor),
        (lambda: st.SharedDict({"step": 7, "nested": {"numbers": NUMBERS}}), check_dict),
        (lambda: st.SharedList([0, "text", NUMBERS]), check_list),
    ],
    ids=["tensor", "dict", "list"],
)
@pytest.mark.parametrize("copies", [1, 3])
def test_memory_lives_in_messages_and_passing_threads(make, check, copies) -> None:
    queue: st.Queue = st.Queue()
    item = make()
    queue.put_many([item] * copies)
    del item
    run_together(*[partial(pass_on, queue, check)] * THREADS)
    assert queue.qsize() == copies
    check(queue.get())


def test_threads_create_and_free_beside_each_other() -> None:
    def work(number: int) -> None:
        held: list[st.Tensor] = []
        for step in range(STEPS):
            held.append(st.full(step % 50 + 1, number * STEPS + step))
            assert int(held[0][-1]) == number * STEPS + max(0, step - 4)
            del held[:-4]

    run_together(*(partial(work, number) for number in range(THREADS)))


def test_threads_move_one_private_tensor_into_shared_memory() -> None:
    def work(tensors: list[st.Tensor], addresses: list[int]) -> None:
        for tensor in tensors:
            addresses.append(tensor[1:].share_memory_().data_ptr())
            assert tensor.is_shared()
            assert tensor.tolist() == [1, 2, 3]

    tensors = [st.from_numpy(np.array([1, 2, 3])) for _ in range(STEPS)]
    addresses: list[list[int]] = [[] for _ in range(THREADS)]
    before = st.stats()["blocks"]
    run_together(*(partial(work, tensors, found) for found in addresses))
    assert all(found == addresses[0] for found in addresses), "the first move is that of all threads"
    assert st.stats()["blocks"] == before + STEPS
