"""How many threads numerical libraries use that a worker has loaded already.

Those that it loads later read the environment.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

_OPENBLAS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)
_SETTERS = (
    (re.compile(r"openblas"), "OPENBLAS_NUM_THREADS", _OPENBLAS),
    (re.compile(r"libmkl_rt"), "MKL_NUM_THREADS", ("MKL_Set_Num_Threads",)),
    (re.compile(r"lib(gomp|omp|iomp5)\b"), "OMP_NUM_THREADS", ("omp_set_num_threads",)),
)


def limit_threads() -> None:
    """Let the loaded libraries use as many threads as the environment now contains."""
    for path in _loaded_libraries():
        for pattern, variable, setters in _SETTERS:
            value = os.environ.get(variable, "")
            if value.isdigit() and pattern.search(Path(path).name):
                _set(path, setters, int(value))


def _set(path: str, setters: tuple[str, ...], count: int) -> None:
    library = ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_NOW)
    for name in setters:
        if hasattr(library, name):
            getattr(library, name)(count)
            return


def _loaded_libraries() -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = (line.split(maxsplit=5)[5:] for line in lines if ".so" in line)
    return {path[0] for path in paths if path}
