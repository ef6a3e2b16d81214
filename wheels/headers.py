"""The headers of a version of Python: an interpreter's if there is one, else Debian's.

The headers of one machine serve all: the `pyconfig.h` of x86-64 and of arm64 differ in macros that only the
sources of CPython use. Those of a free-threaded build differ from the others in one macro.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wheels.debian import SUITES, mmdebstrap

__all__ = ["free_threaded", "headers", "interpreters"]

_INCLUDE = "import sysconfig; print(sysconfig.get_path('include'))"


def headers(python: str, folder: Path) -> Path:
    """Return a folder that contains `Python.h`; what is made or downloaded goes to `folder`.

    Raises
    ------
    FileNotFoundError
        There is neither an interpreter of this version with headers nor a package of Debian.
    """
    version = python.rstrip("t")
    found = _of_interpreter(version) or _of_debian(version, folder)
    return free_threaded(found, folder / python) if python.endswith("t") else found


def interpreters(python: str) -> Iterator[Path]:
    """Yield the interpreters of a version that run, those of `PATH` before pyenv's."""
    paths = [Path(directory, f"python{python}") for directory in os.get_exec_path()]
    paths += Path.home().glob(f".pyenv/versions/{python}.*/bin/python{python}")
    for path in paths:
        if path.exists():
            done = subprocess.run([path, "-c", ""], capture_output=True, timeout=30, check=False)
            if done.returncode == 0:
                yield path


def _of_interpreter(version: str) -> Path | None:
    for path in interpreters(version):
        include = Path(subprocess.check_output([path, "-c", _INCLUDE], text=True).strip())
        if (include / "Python.h").exists():
            return include
    return None


def _of_debian(version: str, folder: Path) -> Path:
    include = folder / version
    if (include / "Python.h").exists():
        return include
    suite = next((suite for suite, pythons in SUITES.items() if version in pythons), None)
    if suite is None:
        msg = (
            f"no headers of Python {version}: python{version} is not on PATH, and no release of Debian has "
            "it; install it with its headers"
        )
        raise FileNotFoundError(msg)
    archive = folder / f"{version}.tar"
    mmdebstrap(archive, suite, [f"libpython{version}-dev"], variant="extract")
    with tempfile.TemporaryDirectory(dir=folder) as root:
        subprocess.run(["tar", "-xf", archive, "-C", root, "./usr/include"], check=True)
        archive.unlink()
        found = Path(root, "usr", "include", f"python{version}")
        # Debian's pyconfig.h includes that of the machine for which it compiles.
        (config,) = found.parent.glob(f"*-linux-gnu*/python{version}/pyconfig.h")
        config.replace(found / "pyconfig.h")
        return found.rename(include)


def free_threaded(include: Path, folder: Path) -> Path:
    """Return a copy of the headers that declares a free-threaded build."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(include, folder)
    config = folder / "pyconfig.h"
    text, count = re.subn(r"/\* #undef Py_GIL_DISABLED \*/", "#define Py_GIL_DISABLED 1", config.read_text())
    if count != 1:
        msg = f"{config} has {count} lines about Py_GIL_DISABLED instead of one"
        raise FileNotFoundError(msg)
    config.write_text(text)
    return folder
