"""The example with vLLM's MessageQueue, with torch's tensors and in a group of torch.distributed."""

from __future__ import annotations

import multiprocessing

import pytest
import torch

from tests.helpers.children import end
from tests.helpers.engine_and_ranks import SECONDS, adaptor, answers_of_ranks
from tests.helpers.live_resources import assert_no_leaks

pytestmark = pytest.mark.usefixtures("torch_uninstalled")


def test_all_ranks_get_tensors() -> None:
    messages = [(n, [n], torch.full((1000, 100), n, dtype=torch.bfloat16)) for n in range(5)]
    with assert_no_leaks():
        answers = answers_of_ranks(adaptor, 2, messages)
    assert answers == [
        (rank, number, float(number), 100_000.0 * number) for number in range(5) for rank in range(2)
    ]


def _member(rank: int, count: int, store: str, results) -> None:
    torch.distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=count)
    queue = adaptor().create_from_process_group(torch.distributed.group.WORLD, 1 << 20, 6, writer_rank=1)
    results.put([queue.broadcast_object(number if rank == 1 else None) for number in range(3)])
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@pytest.mark.thorough
@pytest.mark.parametrize("count", [2, 3])
def test_ranks_of_a_process_group(count, tmp_path) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    members = [
        context.Process(target=_member, args=(rank, count, str(tmp_path / "store"), results))
        for rank in range(count)
    ]
    for member in members:
        member.start()
    for member in members:
        end(member, SECONDS)
    assert [results.get() for _ in members] == [[0, 1, 2]] * count
