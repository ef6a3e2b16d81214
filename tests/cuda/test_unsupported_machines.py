"""Machines without required features, and drivers that fail; on the simulator only."""

from __future__ import annotations

import pytest

from tests.cuda.harness import SIMULATORS

TELL = """
    import shmtensor as st
    try:
        {what}
        print("worked")
    except st.CudaError as error:
        print(type(error).__name__, error.code, error)
    assert st.cuda.is_available() is {available}
    assert st.zeros(3).tolist() == [0, 0, 0], "host tensors work"
"""
EMPTY = "st.empty(3, device='cuda')"


def output_of(machine, what: str = EMPTY, available: bool = True, **env: str) -> str:
    from tests.helpers.children import output, run_python

    return output(run_python(TELL.format(what=what, available=available), env=machine.env | env)).strip()


@pytest.mark.parametrize(
    ("mode", "name", "code", "part"),
    [
        ("stub", "CudaUnavailable", 34, "stub library"),
        ("nodevice", "CudaUnavailable", 100, "CUDA_VISIBLE_DEVICES"),
        ("mismatch", "CudaUnavailable", 803, "different versions"),
        ("fabric", "CudaUnavailable", 802, "fabric manager"),
        ("broken", "CudaUnavailable", 999, "nvidia_uvm is loaded"),
    ],
)
def test_failing_driver_start_is_reported(simulator, mode, name, code, part) -> None:
    text = output_of(simulator, available=False, SHMTENSOR_SIM_MODE=mode)
    assert text.startswith(f"{name} {code} cannot start CUDA")
    assert part in text


def test_missing_driver_is_reported(simulator) -> None:
    text = output_of(simulator, available=False, SHMTENSOR_LIBCUDA="/nowhere/libcuda.so.1")
    assert text.startswith("CudaUnavailable")
    assert "cannot load /nowhere/libcuda.so.1" in text


@pytest.mark.parametrize(
    "env",
    [
        {"SHMTENSOR_SIM_MODE": "wsl"},
        {"SHMTENSOR_SIM_ATTRIBUTES": "102=0"},
        {"SHMTENSOR_SIM_ATTRIBUTES": "103=0"},
        {"SHMTENSOR_LIBCUDA": str(SIMULATORS / "libcuda-bare.so.1")},
    ],
    ids=str,
)
def test_device_without_virtual_memory_is_reported(simulator, env) -> None:
    text = output_of(simulator, **env)
    assert "does not share virtual memory" in text
    assert "WSL2" in text


def test_driver_older_than_an_attribute_can_be_used(simulator) -> None:
    """Regression: CUDA 11.4 does not know the attribute of IPC, and that error ended every use."""
    simulator.run(
        """
        import shmtensor as st
        from tests.cuda import device
        array = device.Array([1.0, 2.0])
        assert st.asarray(array, copy=False).tolist() == [1, 2]
        assert st.zeros(2, device="cuda").tolist() == [0, 0]
        st.cuda.Event()
        """,
        SHMTENSOR_SIM_VERSION="11040",
    )


def test_invisible_gpu_is_rejected(simulator) -> None:
    simulator.run(
        """
        import os, pickle, subprocess, sys
        import shmtensor as st
        import shmtensor.multiprocessing
        from multiprocessing.reduction import ForkingPickler
        tensor = st.zeros(3, device="cuda:1")
        handle = bytes(ForkingPickler.dumps(tensor))
        code = (
            "import pickle, sys, shmtensor as st\\n"
            "try:\\n print(pickle.loads(bytes.fromhex(sys.argv[1])).device)\\n"
            "except st.CudaError as error: print(error)"
        )
        def seen(visible):
            handle = bytes(ForkingPickler.dumps(tensor)).hex()
            env = dict(os.environ, CUDA_VISIBLE_DEVICES=visible)
            return subprocess.run([sys.executable, "-c", code, handle], env=env, timeout=60,
                                  capture_output=True, text=True).stdout.strip()
        assert seen("1") == "cuda:0", seen("1")  # the same GPU by another number
        assert seen("1,0") == "cuda:0"
        text = seen("0")
        assert "does not see that GPU (CUDA_VISIBLE_DEVICES=0)" in text, text
        """
    )


@pytest.mark.parametrize("function", ["cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"])
def test_failed_allocation_leaks_nothing(simulator, function) -> None:
    simulator.run(
        f"""
        import pytest, shmtensor as st
        from tests.cuda import device
        device.library().sim_fault(b"{function}", 1, 801)
        with pytest.raises(st.CudaError, match="801") as caught:
            st.zeros(3, device="cuda")
        assert "MIG" in str(caught.value)
        assert device.used_bytes() == 0
        log = device.library().sim_log().decode().split("\\n")
        assert log.count("cuMemAddressReserve 0") == log.count("cuMemAddressFree 0")
        device.library().sim_no_faults()
        assert st.zeros(3, device="cuda").tolist() == [0, 0, 0]
        """
    )


@pytest.mark.parametrize(("code", "part"), [(304, "no descriptor left"), (999, "nvidia_uvm is loaded")])
def test_error_of_system_or_driver_names_a_remedy(simulator, code, part) -> None:
    text = output_of(simulator, SHMTENSOR_SIM_FAULTS=f"cuMemExportToShareableHandle:0:{code}")
    assert text.startswith(f"CudaError {code} cannot export 64 MiB on cuda:0: CUDA_ERROR_")
    assert part in text


def test_full_gpu_raises_named_error(simulator) -> None:
    simulator.run(
        """
        import pytest, shmtensor as st
        kept = st.zeros(100 << 20, "u1", device="cuda")
        with pytest.raises(st.OutOfSharedMemory, match="CUDA_ERROR_OUT_OF_MEMORY.*nvidia-smi"):
            st.zeros(200 << 20, "u1", device="cuda")
        del kept
        st.zeros(200 << 20, "u1", device="cuda")  # what is idle makes room
        """,
        SHMTENSOR_SIM_LIMIT=str(256 << 20),
    )


def test_failed_import_is_reported_and_block_released(simulator) -> None:
    simulator.run(
        """
        import shmtensor as st
        from tests.cuda import device, workers
        pair = workers.Pair(workers.answer)
        tensor = st.zeros(3, device="cuda")
        pair.put(tensor)
        kind, text = pair.get()
        assert (kind, "CUDA_ERROR_INVALID_VALUE (1" in text) == ("CudaError", True), (kind, text)
        pair.put(tensor)
        assert pair.get() == [([0, 0, 0], "cuda:0", False)], "the next one works"
        pair.end()
        del tensor
        device.wait_until(lambda: st.stats()["blocks"] == st.stats()["queues"], "the block")
        """,
        SHMTENSOR_SIM_FAULTS="cuMemImportFromShareableHandle:1:1",
    )


@pytest.mark.parametrize(
    ("env", "part"),
    [
        ({"SHMTENSOR_SIM_FAULTS": "cuIpcOpenMemHandle_v2:1:201"}, "separate PID namespaces"),
        ({"SHMTENSOR_SIM_FAULTS": "cuIpcOpenMemHandle_v2:1:400"}, "another context"),
        ({"SHMTENSOR_SIM_FAULTS": "cuIpcOpenMemHandle_v2:1:208"}, "older mapping"),
        ({"SHMTENSOR_SIM_FAULTS": "cuIpcOpenMemHandle_v2:1:1"}, "freed it"),
    ],
)
def test_failed_open_of_allocation_is_reported(simulator, env, part) -> None:
    simulator.run(
        f"""
        import gc, shmtensor as st
        from tests.cuda import device, workers
        pair = workers.Pair(workers.answer)
        pair.put(st.asarray(device.Array([1.0])))
        kind, text = pair.get()
        assert kind == "CudaError" and "cuIpcOpenMemHandle returned" in text and {part!r} in text, text
        pair.end()
        device.wait_until(lambda: device.Array.alive == 0, "the owner")
        """,
        **env,
    )
