"""What builds of libraries, against NVIDIA's headers, for the simulated driver have in common."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

SECONDS = 400
RUNTIME = Path(__file__).with_name("cuda_runtime")


def run(*command: str | Path, **more: str) -> str:
    done = subprocess.run(
        command, env=os.environ | more, timeout=SECONDS, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def unpacked_source(folder: Path, name: str, version: str, **more: str) -> Path:
    """Return the folder with the source distribution, which this downloads at the first call."""
    source = folder / f"{name}-{version}"
    if not source.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        run(*pip, "--dest", folder, "--no-deps", f"--no-binary={name}", f"{name}=={version}", **more)
        partial = folder / "partial"
        partial.mkdir(exist_ok=True)
        run("tar", "--no-same-owner", "-xf", folder / f"{source.name}.tar.gz", "-C", partial)
        (partial / source.name).rename(source)
    return source


def include_folders(headers: dict[str, str]) -> list[str]:
    """Return the folders of headers, by the names of the packages that contain them."""
    folders = []
    for package, name in headers.items():
        files = importlib.metadata.files(package) or []
        (header,) = [file for file in files if file.match(f"include/{name}")]
        folders.append(str(header.locate()).removesuffix(f"/{name}"))
    return folders


def runtime_objects(folder: Path, headers: list[str], *options: str) -> list[Path]:
    """Compile the functions of the CUDA runtime that are made of the driver's; return the object files."""
    compiler = ["c++", "-std=c++20", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c", *options]
    compiled = []
    for part in sorted(RUNTIME.glob("*.cpp")):
        compiled.append(folder / f"{part.stem}.o")
        run(*compiler, *(f"-isystem{at}" for at in headers), part, "-o", compiled[-1])
    return compiled
