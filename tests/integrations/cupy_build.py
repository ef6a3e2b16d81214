"""Build the module of CuPy that contains NVIDIA's CUDA runtime again, over the one in `cuda_runtime`.

`python -m tests.integrations.cupy_build FOLDER` unpacks CuPy's source distribution, of the version that is
installed, in the folder, and replaces the module of the installed package.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
import sysconfig
from pathlib import Path

from tests.integrations.source_builds import include_folders, run, runtime_objects, unpacked_source

MODULE = "cupy_backends.cuda.api.runtime"
# crt is in a package of its own since CUDA 13.
HEADERS = {
    "nvidia-cuda-runtime-cu12": "cuda.h",
    "nvidia-cuda-crt": "crt/host_defines.h",
    "nvidia-cuda-profiler-api-cu12": "cuda_profiler_api.h",
}
# As CuPy's own build defines them; of CUDA, the version of the headers.
CONSTANTS = "CUPY_CUDA_VERSION=12090,CUPY_HIP_VERSION=0,CUPY_USE_CUDA_PYTHON=0,CUPY_CUFFT_STATIC=False"


def build(source: Path, folder: Path) -> Path:
    generated, module = folder / "module.cpp", folder / "module.o"
    path = Path("cupy_backends/cuda/api/runtime.pyx")
    cython = [sys.executable, "-m", "cython", "-3", "--cplus", "--module-name", MODULE, "-E", CONSTANTS]
    run(*cython, "-I", source, source / path, "-o", generated)
    headers = include_folders(HEADERS)
    includes = [f"-isystem{at}" for at in (sysconfig.get_path("include"), *headers)]
    compiler = ["c++", "-std=c++20", "-fPIC", "-fvisibility=hidden", "-w", "-c", *includes]
    run(*compiler, f"-I{(source / path).parent}", generated, "-o", module)
    runtime = runtime_objects(folder, headers, "-fvisibility=hidden")
    here = {line.split()[-1] for line in run("nm", "--defined-only", *runtime).splitlines() if line}
    wanted = {line.split()[-1] for line in run("nm", "--undefined-only", module).splitlines()}
    lacking = sorted(name for name in wanted - here if name.startswith("cuda"))
    built = folder / "runtime.so"
    stand_ins = [f"-Wl,--defsym={name}=cudart_without" for name in lacking]
    run("c++", "-shared", module, *runtime, *stand_ins, "-ldl", "-o", built)
    return built


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    version = importlib.metadata.version("cupy-cuda12x")
    built = build(unpacked_source(folder, "cupy", version, CUPY_INSTALL_USE_STUB="1"), folder)
    spec = importlib.util.find_spec(MODULE)
    assert spec is not None
    assert spec.origin is not None
    shutil.copy(built, f"{spec.origin}.new")
    Path(f"{spec.origin}.new").replace(spec.origin)


main()
