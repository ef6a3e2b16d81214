"""Build the wheels and the source distribution: `python -m wheels.build [--only TAG ...]`.

The compiler is Clang in PyPI's package `ziglang`, which contains the start files and symbol versions of every
glibc for every machine. Only the headers of a target's Python are needed, so one machine builds all wheels.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import ziglang

from wheels.headers import headers
from wheels.targets import GLIBC, ROOT, Target, targets

__all__ = ["build"]

BUILD = ROOT / "build" / "wheels"
ZIG = Path(ziglang.__file__).with_name("zig")


def build(target: Target, dist: Path) -> Path:
    """Build a wheel and return its path; what depends on no Python is compiled once for a machine."""
    triple = "{}-linux-gnu.{}.{}".format(target.machine, *GLIBC)
    settings = {
        "build-dir": BUILD / target.machine,
        "cmake.define.CMAKE_TOOLCHAIN_FILE": ROOT / "wheels" / "zig.cmake",
        "cmake.define.Python_INCLUDE_DIR": headers(target.python, BUILD / "headers"),
        # The build directory has the ending of its first Python.
        "cmake.define.PYTHON_MODULE_EXTENSION": target.suffix,
        "cmake.define.SHMTENSOR_WERROR": "ON",
    }
    environment = os.environ | {
        "WHEEL_ZIG": str(ZIG),
        "WHEEL_TARGET": triple,
        "WHEEL_UNWINDER": str(_unwinder(triple)),
        "SETUPTOOLS_EXT_SUFFIX": target.suffix,  # read by scikit-build-core and pybind11
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
        "ZIG_LOCAL_CACHE_DIR": str(BUILD / "zig"),
        "ZIG_GLOBAL_CACHE_DIR": str(BUILD / "zig"),
    }
    made = BUILD / "made" / target.name
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    command += [word for key, value in settings.items() for word in ("-C", f"{key}={value}")]
    subprocess.run([*command, "--wheel-dir", made, ROOT], check=True, env=environment)
    (untagged,) = made.glob("*.whl")
    return _tagged(untagged, target, dist)


def _unwinder(triple: str) -> Path:
    """Return a library to link with in place of libgcc_s.so.1."""
    library = BUILD / f"{triple}-libgcc_s.so.1"
    library.parent.mkdir(parents=True, exist_ok=True)
    command = [ZIG, "cc", "-target", triple, "-shared", "-nostdlib", "-Wl,-soname,libgcc_s.so.1"]
    subprocess.run([*command, Path(__file__).with_name("libgcc_s.c"), "-o", library], check=True)
    return library


def _tagged(untagged: Path, target: Target, dist: Path) -> Path:
    """Move a wheel, which has the tags of the Python that built it, to `dist` with the tags of its target."""
    python, abi, platform = target.tags
    tags = ["--python-tag", python, "--abi-tag", abi, "--platform-tag", platform]
    command = [sys.executable, "-m", "wheel", "tags", "--remove", *tags, untagged]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    made = untagged.with_name(done.stdout.split()[-1])
    return made.replace(dist / made.name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m wheels.build", description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder of the wheels")
    parser.add_argument("--only", nargs="+", help="such as cp314t-x86_64", metavar="TAG")
    chosen = parser.parse_args()
    chosen.dist.mkdir(parents=True, exist_ok=True)
    for target in targets(chosen.only):
        made = build(target, chosen.dist)
        print(f"{made.name}: {made.stat().st_size / 1e6:.2f} MB", flush=True)
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", chosen.dist, ROOT]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError as missing:
        sys.exit(str(missing))
