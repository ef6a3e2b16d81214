"""Build and install PyCUDA, which has no wheels, against NVIDIA's headers and the simulated driver.

`python -m tests.integrations.pycuda_build FOLDER` unpacks its source distribution in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cuda.harness import SIMULATORS
from tests.integrations.source_builds import include_folders, run, unpacked_source

VERSION = "2026.1"
HEADERS = {"nvidia-cuda-runtime-cu12": "cuda.h", "nvidia-cuda-profiler-api-cu12": "cudaProfiler.h"}


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    source = unpacked_source(folder, "pycuda", VERSION)
    driver = folder / "libcuda.so"
    driver.unlink(missing_ok=True)
    driver.symlink_to(SIMULATORS / "libcuda-full.so.1")
    settings = {
        "CUDA_ENABLE_CURAND": False,
        "CUDA_INC_DIR": include_folders(HEADERS),
        "CUDADRV_LIB_DIR": [str(folder)],
        "CXXFLAGS": ["-O0", "-w"],
    }
    lines = [f"{name} = {value!r}\n" for name, value in settings.items()]
    (source / "siteconf.py").write_text("".join(lines))
    run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", source)


main()
