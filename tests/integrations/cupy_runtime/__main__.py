"""Build the module of CuPy that contains NVIDIA's CUDA runtime again, over the functions in this folder.

`python -m tests.integrations.cupy_runtime FOLDER` unpacks CuPy's source distribution, of the version that is
installed, in the folder, and replaces the module of the installed package.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

MODULE = "cupy_backends.cuda.api.runtime"
RUNTIME = sorted(Path(__file__).parent.glob("*.cpp"))
# crt is in a package of its own since CUDA 13.
HEADERS = {
    "nvidia-cuda-runtime-cu12": "cuda.h",
    "nvidia-cuda-crt": "crt/host_defines.h",
    "nvidia-cuda-profiler-api-cu12": "cuda_profiler_api.h",
}
# As CuPy's own build defines them; of CUDA, the version of the headers.
CONSTANTS = "CUPY_CUDA_VERSION=12090,CUPY_HIP_VERSION=0,CUPY_USE_CUDA_PYTHON=0,CUPY_CUFFT_STATIC=False"
SECONDS = 240


def run(*command: str | Path, **more: str) -> str:
    done = subprocess.run(
        command, env=os.environ | more, timeout=SECONDS, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def unpacked_source(folder: Path, version: str) -> Path:
    source = folder / f"cupy-{version}"
    if not source.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        what = ["--no-deps", "--no-binary=cupy", f"cupy=={version}"]
        run(*pip, "--dest", folder, *what, CUPY_INSTALL_USE_STUB="1")
        partial = folder / "partial"
        partial.mkdir(exist_ok=True)
        run("tar", "--no-same-owner", "-xf", folder / f"{source.name}.tar.gz", "-C", partial)
        (partial / source.name).rename(source)
    return source


def include_folders() -> list[str]:
    folders = [sysconfig.get_path("include")]
    for package, name in HEADERS.items():
        files = importlib.metadata.files(package) or []
        (header,) = [file for file in files if file.match(f"include/{name}")]
        folders.append(str(header.locate()).removesuffix(f"/{name}"))
    return [f"-isystem{folder}" for folder in folders]


def build(source: Path, folder: Path) -> Path:
    generated, module = folder / "module.cpp", folder / "module.o"
    path = Path("cupy_backends/cuda/api/runtime.pyx")
    cython = [sys.executable, "-m", "cython", "-3", "--cplus", "--module-name", MODULE, "-E", CONSTANTS]
    run(*cython, "-I", source, source / path, "-o", generated)
    compiler = ["c++", "-std=c++20", "-fPIC", "-fvisibility=hidden", "-c", *include_folders()]
    run(*compiler, "-w", f"-I{(source / path).parent}", generated, "-o", module)
    runtime = [folder / f"{part.stem}.o" for part in RUNTIME]
    for part, compiled in zip(RUNTIME, runtime, strict=True):
        run(*compiler, "-Wall", "-Wextra", "-Werror", part, "-o", compiled)
    here = {line.split()[-1] for line in run("nm", "--defined-only", *runtime).splitlines() if line}
    wanted = {line.split()[-1] for line in run("nm", "--undefined-only", module).splitlines()}
    lacking = sorted(name for name in wanted - here if name.startswith("cuda"))
    built = folder / "runtime.so"
    stand_ins = [f"-Wl,--defsym={name}=cudart_without" for name in lacking]
    run("c++", "-shared", module, *runtime, *stand_ins, "-ldl", "-o", built)
    return built


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    version = importlib.metadata.version("cupy-cuda12x")
    built = build(unpacked_source(folder, version), folder)
    spec = importlib.util.find_spec(MODULE)
    assert spec is not None
    assert spec.origin is not None
    shutil.copy(built, f"{spec.origin}.new")
    Path(f"{spec.origin}.new").replace(spec.origin)


main()
