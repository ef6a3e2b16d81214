"""What `shmtensor doctor` reports of GPUs; on the simulator."""

from __future__ import annotations

import pytest

from tests.helpers.children import output, run_python

REPORT = """
    import shmtensor as st
    report = st.doctor()
    assert "libcuda" not in open("/proc/self/maps").read(), "this process can still be forked"
    print(report)
"""


def lines_of(machine, **env: str) -> dict[str, str]:
    lines = (line.partition(": ") for line in output(run_python(REPORT, env=machine.env | env)).splitlines())
    return {name: text for name, _, text in lines if "cuda:" in name or "CUDA" in name or "GPU" in name}


def test_doctor_describes_each_gpu(simulator) -> None:
    lines = lines_of(simulator, CUDA_VISIBLE_DEVICES="1,0")
    uuids = [f"GPU-53494d00-0000-0000-0000-00000000000{number}" for number in range(2)]
    shared = "shares tensors, arrays of other libraries, events"
    assert lines["ok    cuda:0"] == f"Simulated GPU ({uuids[1]}): {shared}"
    assert lines["ok    cuda:1"] == f"Simulated GPU ({uuids[0]}): {shared}"
    assert lines["ok    cuda:0 peers"] == "cuda:1"
    assert lines["ok    CUDA"].startswith("13.0 (")
    assert lines["ok    CUDA_VISIBLE_DEVICES"].startswith("1,0; ")
    assert len(lines) == 7


@pytest.mark.parametrize(
    ("env", "name", "part"),
    [
        ({"SHMTENSOR_SIM_MODE": "wsl"}, "WARN  cuda:0", "shares nothing; tensors need virtual memory"),
        ({"SHMTENSOR_SIM_ATTRIBUTES": "125=0"}, "ok    cuda:0", "shares tensors; arrays of other"),
        ({"SHMTENSOR_SIM_ATTRIBUTES": "18=1"}, "ok    cuda:0", "integrated"),
        ({"SHMTENSOR_SIM_ATTRIBUTES": "20=3"}, "WARN  cuda:0 mode", "nvidia-smi -c DEFAULT"),
        ({"SHMTENSOR_SIM_ATTRIBUTES": "133=1"}, "ok    cuda:0 MPS", "one MPS daemon"),
        ({"SHMTENSOR_SIM_MODE": "mig"}, "ok    cuda:0", "a MIG instance: only processes"),
        ({"SHMTENSOR_SIM_P2P": "0"}, "ok    cuda:0 peers", "none: copies to other GPUs go through the host"),
        ({"SHMTENSOR_SIM_MODE": "nodevice"}, "WARN  GPUs", "no GPU is visible"),
        ({"SHMTENSOR_SIM_MODE": "mismatch"}, "WARN  GPUs", "different versions"),
        ({"SHMTENSOR_LIBCUDA": "/nowhere/libcuda.so.1"}, "WARN  GPUs", "cannot load /nowhere/libcuda.so.1"),
    ],
    ids=str,
)
def test_doctor_says_what_will_work(simulator, env, name, part) -> None:
    lines = lines_of(simulator, **env)
    assert part in lines.get(name, ""), lines
