"""Tests of a library are skipped where it is not installed; a run of other tests does not mention them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from multiprocessing.reduction import DupFd
from pathlib import Path

import pytest

import shmtensor as st
from tests.cuda.harness import SIMULATORS, Machine
from tests.helpers import ray_programs
from tests.integrations.cuda_clients import INSTALLED
from tests.integrations.not_installed import NotInstalled

# A child that is forked after OpenMP's threads have run waits for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

_PATTERNS = {
    "test_cuda_clients_cupy.py": "cupy",
    "test_cuda_clients_numba.py": "numba_cuda",
    "test_cupy*.py": "cupy",
    "test_dask*.py": "distributed",
    "test_datasets.py": "datasets",
    "test_frames*.py": "polars",
    "test_ipython.py": "IPython",
    "test_jax.py": "jax",
    "test_joblib*.py": "joblib",
    "test_mpi.py": "mpi4py",
    "test_multiprocess.py": "multiprocess",
    "test_pycuda.py": "pycuda",
    "test_pyinstaller.py": "PyInstaller",
    "test_ray*.py": "ray torch",
    "test_share_elsewhere.py": "joblib loky multiprocess pandas polars scipy xarray",
    "test_torch_*.py": "torch",
    "test_torch_joblib.py": "joblib",
    "test_tvm_ffi.py": "tvm_ffi",
    "test_vector_environments.py": "gymnasium stable_baselines3",
    "test_vllm.py": "vllm",
    "test_web_servers.py": "fastapi",
}


def _missing(name: str) -> str | None:
    """Return what a module of tests lacks."""
    for pattern, libraries in _PATTERNS.items():
        for library in libraries.split() if fnmatch(name, pattern) else ():
            if importlib.util.find_spec(library) is None:
                return f"{library} is not installed"
    if name == "test_cuda_clients.py" and not INSTALLED:
        return "no library with CUDA is installed"
    if name == "test_torch_cuda.py":
        folder = Path(importlib.util.find_spec("torch").origin).parent
        return None if (folder / "lib/libc10_cuda.so").exists() else "torch is its CPU build"
    return None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = any(Path(__file__).parent.name in argument for argument in config.args)
    return True if not named and _missing(collection_path.name) else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> NotInstalled | None:
    reason = _missing(module_path.name)
    return NotInstalled.from_parent(parent, path=module_path, reason=reason) if reason else None


def pytest_collection_modifyitems(items) -> None:
    """Let the tests of this folder fork after those of JAX, which warns at each fork once it is imported."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name != "test_jax.py":
            item.add_marker(pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"))


@pytest.fixture
def torch_installed() -> Iterator[None]:
    """Let `multiprocessing` share torch's tensors during a test."""
    import torch

    torch.set_num_threads(1)
    st.install("torch")
    yield
    st.uninstall("torch")


@pytest.fixture
def torch_uninstalled():
    """Uninstall after a test what its program has installed."""
    yield
    st.uninstall("torch")


@pytest.fixture(scope="session")
def ray_environment() -> Iterator[dict[str, str]]:
    """Return the environment of programs that connect to a cluster of Ray, in a session of their own."""
    with ray_programs.cluster(f"test-ray-{os.getpid()}") as environment:
        yield environment


@pytest.fixture
def simulated_driver(tmp_path) -> Machine:
    """Return a machine whose CUDA driver is the simulated one, for all libraries."""
    (tmp_path / "memory").mkdir()
    machine = Machine("sim", tmp_path / "memory")
    (tmp_path / "libcuda.so.1").symlink_to(SIMULATORS / "libcuda-full.so.1")
    machine.env |= {
        "LD_LIBRARY_PATH": str(tmp_path),
        "SHMTENSOR_LIBCUDA": str(tmp_path / "libcuda.so.1"),
        "SHMTENSOR_SIM_PAGEABLE": "sync",
    }
    return machine


@pytest.fixture
def run_main(simulated_driver) -> Callable[..., None]:
    """Run a function of a test's module as the main program of a process with the simulated driver."""
    return lambda function, **options: simulated_driver.run_main(
        function.__module__, function.__name__, **options
    )


@pytest.fixture(scope="session", autouse=True)
def _resource_sharer() -> None:
    """Start the thread by which the standard library, and torch with it, sends descriptors."""
    with open(os.devnull) as file:
        DupFd(file.fileno()).detach()
