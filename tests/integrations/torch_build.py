"""Let torch's CUDA build run on the simulated driver: one library in place of all of NVIDIA's.

`python -m tests.integrations.torch_build FOLDER` compiles a library of the CUDA runtime in `cuda_runtime` and
of all else that torch's libraries take from NVIDIA's: those functions fail, and kernels do not run. It is
installed where torch's libraries look for NVIDIA's, under the names of all of them.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path

from tests.integrations.source_builds import include_folders, run, runtime_objects

RUNTIME = "libcudart.so.13"
HEADERS = {
    "nvidia-cuda-runtime": "cuda.h",
    "nvidia-cuda-crt": "crt/host_defines.h",
    "nvidia-cuda-profiler-api": "cuda_profiler_api.h",
}
# Most of NVIDIA's libraries have versioned symbols, with the file's name as the version.
NVIDIAS = re.compile(
    r"lib(cu(blas(Lt)?|dart|dnn|fft|file|pti|rand|solver|sparse(Lt)?)|nccl|nvrtc|nvshmem_host)\.so\.\d+"
)
OTHER_VERSION = "NVSHMEM"
OPENED = "libnvidia-ml.so.1"  # not linked with, but opened when it is needed
WITHOUT_VERSION = re.compile("nccl|cuFile|cusparseLt")
REGISTERS = re.compile("__cuda(Unr|R)egister|__cudaInitModule")  # as each library does when it is loaded


def wanted(library: Path) -> dict[str, str]:
    """Return the names that one of torch's libraries takes from NVIDIA's, each with its version."""
    found = {}
    for line in run("nm", "--dynamic", "--undefined-only", "--no-weak", library).splitlines():
        name, _, version = line.split()[-1].partition("@")
        if NVIDIAS.fullmatch(version) or version == OTHER_VERSION:
            found[name] = version
        elif not version and WITHOUT_VERSION.match(name):
            found[name] = RUNTIME
    return found


def build(libraries: list[Path], folder: Path) -> Path:
    objects = runtime_objects(folder, include_folders(HEADERS))
    symbols = run("nm", "--defined-only", "--extern-only", *objects).splitlines()
    here = {line.split()[-1] for line in symbols if " T " in line}
    versions = defaultdict(set, {RUNTIME: set(here)})
    for library in libraries:
        for name, version in wanted(library).items():
            versions[version].add(name)
    script = folder / "versions"
    script.write_text(
        "".join(f"{version} {{ {'; '.join(sorted(names))}; }};\n" for version, names in versions.items())
    )
    stand_ins = [
        f"-Wl,--defsym={name}={'cudart_registered' if REGISTERS.match(name) else 'cudart_without'}"
        for name in sorted(set().union(*versions.values()) - here)
    ]
    built = folder / RUNTIME
    options = ["-shared", f"-Wl,--version-script={script}", f"-Wl,-soname={RUNTIME}", *stand_ins]
    run("c++", *objects, *options, "-ldl", "-o", built)
    return built


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    libraries = sorted(package.glob("lib/*.so"))
    built = build(libraries, folder)
    place = package.parent / "nvidia" / "cu13" / "lib"
    place.mkdir(parents=True, exist_ok=True)
    needed = "".join(run("readelf", "--dynamic", library) for library in libraries)
    for name in {OPENED, *(match[0] for match in NVIDIAS.finditer(needed))}:
        (place / name).unlink(missing_ok=True)
        if name != RUNTIME:
            (place / name).symlink_to(RUNTIME)
    shutil.copy(built, place / RUNTIME)


main()
