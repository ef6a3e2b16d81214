"""The example with vLLM's MessageQueue, compared with vLLM's own module."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest
import torch

from tests.helpers.children import run_command
from tests.helpers.engine_and_ranks import adaptor, answers_of_ranks, vllm

pytestmark = pytest.mark.usefixtures("torch_uninstalled")


PUBLIC = [name for name in vars(adaptor()) if name == "__init__" or not name.startswith("_")]


@pytest.mark.parametrize("name", PUBLIC)
def test_methods_have_the_parameters_of_vllm(name) -> None:
    ours, theirs = (inspect.signature(getattr(kind, name)).parameters for kind in (adaptor(), vllm()))
    assert list(ours) == list(theirs)
    assert [each.default for each in ours.values()] == [each.default for each in theirs.values()]


def test_methods_that_it_lacks() -> None:
    theirs = {name for name, _ in inspect.getmembers(vllm(), inspect.isfunction) if not name.startswith("_")}
    assert theirs - set(PUBLIC) == {
        "acquire_read",  # chunks of the ring
        "acquire_write",
        "create_from_process_group_single_reader",  # between hosts
        "recv",  # ZeroMQ
    }


@pytest.mark.parametrize("queue_class", [adaptor, vllm])
def test_same_answers_with_either(queue_class) -> None:
    messages = [
        (number, np.full(2_000_000, number, "u1"), torch.full((1000,), number, dtype=torch.bfloat16))
        for number in range(6)
    ]
    answers = answers_of_ranks(queue_class, 2, messages)
    assert answers == [
        (rank, number, 2_000_000.0 * number, 1000.0 * number) for number in range(6) for rank in range(2)
    ]


@pytest.mark.timeout(300)  # five links with four ranks each, most of which import torch
def test_benchmark_measures_all_links() -> None:
    command = [sys.executable, "-m", "bench", "engine", "--quick", "--rounds", "1", "--pin", "none"]
    done = run_command(command, timeout=280)
    assert done.returncode in (0, 1), done  # the status shows if its goals were met
    assert len(done.stdout.splitlines()) == 3 * 5, done
    assert "without" not in done.stdout
