"""`st.install("torch")` with tensors on a GPU: torch's CUDA build on the simulated driver."""

from __future__ import annotations

import json
import sys
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

import shmtensor as st
from tests.cuda import torch_batches, torch_weights, workers
from tests.cuda.harness import SIMULATORS
from tests.cuda.test_libraries import PROGRAMS
from tests.cuda.torch_tensors import (
    BIG,
    add_one,
    in_place,
    is_shared,
    private,
    through_pickle,
    write,
)
from tests.helpers.children import output, run_command


@pytest.mark.parametrize(("module", "name"), PROGRAMS)
def test_program(simulated_driver, module, name) -> None:
    simulated_driver.run_main(module, name)


def test_batches_are_copied_where_the_driver_refuses(run_main) -> None:
    run_main(torch_batches.copied_where_the_driver_refuses, SHMTENSOR_SIM_FAULTS="cuMemHostRegister_v2:0:2")


@pytest.mark.parametrize("program", [in_place, torch_weights.killed_trainer_in_place])
def test_expandable_segments_are_shared_in_place(run_main, program) -> None:
    run_main(program, PYTORCH_ALLOC_CONF="expandable_segments:True")


def on_second_device() -> None:
    st.install("torch", cuda=True)
    pair = workers.Pair(add_one)
    for sent in (private("cuda:1"), torch.from_dlpack(st.zeros(BIG, "f4", device="cuda:1"))):
        pair.put(sent)
        back = pair.get()
        assert back.device == torch.device("cuda:1")
        assert is_shared(back)
        assert back[1].item() == sent[1].item() + (not is_shared(sent))
    pair.end()


def test_tensor_stays_on_its_device(run_main) -> None:
    run_main(on_second_device, SHMTENSOR_SIM_DEVICES="2")


def without_virtual_memory() -> None:
    st.install("torch", cuda=True)
    mine = private()
    with pytest.raises(st.CudaUnavailable, match="virtual memory"):
        ForkingPickler.dumps(mine)
    st.install("torch", cuda=True, alias=True)
    pair = workers.Pair(write)
    pair.put(mine)
    assert pair.get()[:3].tolist() == [0, 1, 2]
    assert mine[:3].tolist() == [7, 7, 7]
    pair.end()


def test_error_where_copies_cannot_be_shared(run_main, tmp_path) -> None:
    (tmp_path / "libcuda.so.1").unlink()
    (tmp_path / "libcuda.so.1").symlink_to(SIMULATORS / "libcuda-bare.so.1")
    run_main(without_virtual_memory)


def not_exportable() -> None:
    st.install("torch", cuda=True, alias=True)
    mine = private()
    with pytest.raises(ValueError, match="cannot be shared without a copy"):
        ForkingPickler.dumps(mine)
    st.install("torch", cuda=True)
    assert is_shared(through_pickle(mine))


def test_memory_that_cannot_be_shared_in_place_is_refused(run_main) -> None:
    run_main(not_exportable, PYTORCH_ALLOC_CONF="backend:cudaMallocAsync")


def test_weights_of_the_gpu_report_leave_nothing(simulated_driver, tmp_path) -> None:
    file = tmp_path / "weights.json"
    output(
        run_command(
            [sys.executable, "-m", "probes.weights", "--json", str(file)],
            timeout=100,
            env=simulated_driver.env,
        )
    )
    found = json.loads(file.read_text())["results"]
    assert found.keys() == {"torch", "shmtensor, in buckets", "shmtensor"}
    assert found["shmtensor"] == found["shmtensor, in buckets"] == {"left": {"MiB": 0}}
