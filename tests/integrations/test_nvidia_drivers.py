"""NVIDIA's drivers without a GPU: they export what shmtensor looks up, and the reports are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cuda.harness import SIMULATORS
from tests.helpers.children import run_python

ROOT = Path(__file__).parents[2]
DRIVERS = ROOT / "build/nvidia-drivers"  # by get_nvidia_drivers.sh
FOUND = sorted(DRIVERS.glob("*/libcuda.so.1"))
VERSIONS = {"470": 11040, "535": 12020, "550": 12040}


@pytest.fixture(params=FOUND or [None], ids=lambda path: path.parent.name if path else "none")
def driver(request: pytest.FixtureRequest) -> Path:
    if request.param is None:
        reason = DRIVERS / "reason"
        pytest.skip(reason.read_text() if reason.exists() else "not fetched: make test-integrations")
    return request.param


def without_gpu() -> None:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has a driver of its own, of another version")


def names() -> list[str]:
    found = re.findall(r"X\((cu\w+),", (ROOT / "csrc/cuda/types.hpp").read_text())
    assert len(found) > 50
    found.remove("cuCtxRecordEvent")  # of CUDA 12.5
    return found


def test_every_function_is_exported(driver) -> None:
    """The driver returns the same addresses to programs that give it the plain name and a version."""
    program = """
        import ctypes, sys
        path, version, *names = sys.argv[1:]
        driver = ctypes.CDLL(path)
        reported = ctypes.c_int()
        assert driver.cuDriverGetVersion(ctypes.byref(reported)) == 0
        assert reported.value == int(version), reported.value
        for name in names:
            exported = ctypes.cast(getattr(driver, name), ctypes.c_void_p).value
            plain = name[:-3] if name[-3:-1] == "_v" else name
            found = ctypes.c_void_p()
            code = driver.cuGetProcAddress(plain.encode(), ctypes.byref(found), reported, ctypes.c_uint64(0))
            assert code == 0, (name, code)
            assert found.value == exported, name
    """
    version = VERSIONS[driver.parent.name.partition(".")[0]]
    done = run_python(program, arguments=(str(driver), str(version), *names()))
    assert done.returncode == 0, done.stderr


def test_simulator_looks_up_as_the_driver(driver) -> None:
    """A known name, one that is unknown, and one of a later version."""
    program = """
        import ctypes, sys
        driver = ctypes.CDLL(sys.argv[1])
        def ask(function, name, version, *status):
            found, flags = ctypes.c_void_p(), ctypes.c_uint64(0)
            code = function(name, ctypes.byref(found), version, flags, *map(ctypes.byref, status))
            return code, bool(found.value), [one.value for one in status]
        for name, version in ((b"cuMemAlloc", 12000), (b"cuMemAlloc", 1000), (b"cuNothing", 12000),
                              (b"cuMemAllocAsync", 11000), (b"cuMemAllocAsync", 11020)):
            print(ask(driver.cuGetProcAddress, name, version))
            print(driver.cuGetProcAddress_v2(name, ctypes.byref(ctypes.c_void_p()), version, None, None))
            print(ask(driver.cuGetProcAddress_v2, name, version, ctypes.c_int(-1)))
    """
    if driver.parent.name.startswith("470"):
        pytest.skip("cuGetProcAddress_v2 is of CUDA 12")
    real = run_python(program, arguments=(str(driver),))
    simulated = run_python(program, arguments=(str(SIMULATORS / "libcuda-full.so.1"),))
    assert real.stdout, real.stderr
    assert simulated.stdout == real.stdout


def test_error_names_and_texts_are_known(driver) -> None:
    """The simulator's names and texts of errors are the driver's."""
    table = re.findall(r'\{(\d+), "(CUDA_\w+)",\s*"([^"]+)"\}', SIMULATED.read_text())
    assert len(table) > 20
    program = """
        import ast, ctypes, sys
        driver = ctypes.CDLL(sys.argv[1])
        for code, *expected in ast.literal_eval(sys.argv[2]):
            texts = []
            for function in (driver.cuGetErrorName, driver.cuGetErrorString):
                text = ctypes.c_char_p()
                function(int(code), ctypes.byref(text))
                texts.append((text.value or b"").decode())
            if texts != expected:
                print(code, texts, expected)
    """
    done = run_python(program, arguments=(str(driver), repr(table)))
    assert done.returncode == 0, done.stderr
    unknown = UNKNOWN_TO.get(driver.parent.name.partition(".")[0], set())
    wrong = [line for line in done.stdout.splitlines() if int(line.split()[0]) not in unknown]
    assert wrong == []


SIMULATED = ROOT / "tests/cuda/sim/device.cpp"
UNKNOWN_TO = {"470": {46}}  # CUDA_ERROR_DEVICE_UNAVAILABLE is of CUDA 11.7


def test_missing_gpu_is_reported(driver) -> None:
    without_gpu()
    program = """
        import shmtensor as st
        assert not st.cuda.is_available()
        for _ in range(2):
            try:
                st.empty(3, device="cuda")
            except st.CudaUnavailable as error:
                print(error.code, error)
        assert st.zeros(3).tolist() == [0, 0, 0]
    """
    done = run_python(program, env={"SHMTENSOR_LIBCUDA": str(driver)})
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith(f"100 cannot start CUDA ({driver}): cuInit returned CUDA_ERROR_NO_DEVICE")
    assert "no GPU is visible" in first


def test_doctor_reports_missing_kernel_module(driver) -> None:
    without_gpu()
    program = """
        import shmtensor as st
        (finding,) = [finding for finding in st.doctor() if finding.name == "CUDA driver"]
        print(finding)
    """
    done = run_python(program, env={"SHMTENSOR_LIBCUDA": str(driver)})
    assert "its kernel module is not loaded" in done.stdout, done.stderr
