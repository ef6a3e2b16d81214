"""Programs that PyInstaller has frozen, with the hook of this package."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.helpers.children import clean_environment, run_command
from tests.integrations.programs import PROGRAMS

pytestmark = pytest.mark.timeout(600)  # with the build
METHODS = ["fork", "spawn", "forkserver", "server"]

BUILD = """
    found = Analysis(["program.py"])
    modules = PYZ(found.pure)
    program = EXE(modules, found.scripts, exclude_binaries=True, name="program")
    COLLECT(program, found.binaries, found.datas, name="folder")
    EXE(modules, found.scripts, found.binaries, found.datas, name="single")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the programs, which the processes of a run build once: it takes a minute."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return build(tmp_path_factory.mktemp("frozen"))
    folder = tmp_path_factory.getbasetemp().parent / "frozen"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return folder / "dist" if (folder / "built").exists() else build(folder)


def build(folder: Path) -> Path:
    shutil.copy(PROGRAMS / "pyinstaller_program.py", folder / "program.py")
    (folder / "program.spec").write_text(textwrap.dedent(BUILD))
    command = [sys.executable, "-m", "PyInstaller", "--log-level", "WARN", "program.spec"]
    subprocess.run(command, cwd=folder, env=clean_environment(), check=True, timeout=500)
    (folder / "built").touch()
    return folder / "dist"


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_folder(built: Path, method: str) -> None:
    done = run_command([str(built / "folder/program")], env={"METHODS": method})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{method} [3.0, 3.0, 3.0] True\n"


def test_program_with_the_other_freeze_support_is_not_started_again_and_again(built: Path) -> None:
    done = run_command([str(built / "folder/program")], env={"METHODS": "server", "STANDARD": "1"})
    assert done.returncode == 1
    assert done.stderr.count("freeze_support() first in its main guard") == 1
    assert "the worker server could not start" in done.stderr


def test_missing_manager_names_the_hook(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built / "folder", tmp_path / "copy", symlinks=True, copy_function=os.link)
    (tmp_path / "copy/_internal/shmtensor/shmtensor-manager").unlink()
    done = run_command([str(tmp_path / "copy/program")], env={"METHODS": "fork"})
    assert done.returncode == 1
    assert "freeze the program with its hook for PyInstaller" in done.stderr


def test_single_file(built: Path) -> None:
    done = run_command([str(built / "single")], env={"METHODS": ",".join(METHODS)}, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    expected = [f"{method} {[2.0 ** (i + 2) - 1] * 3} True" for i, method in enumerate(METHODS)]
    assert done.stdout.splitlines() == expected
