"""`csrc/cuda/types.hpp` agrees with NVIDIA's `cuda.h`, of its packages on PyPI."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cuda.harness import ROOT

HEADERS = Path(__file__).parent / "headers"
AGREEMENT = HEADERS / "agreement.cpp"
SIMULATOR = Path(__file__).parent / "sim"
CLIENTS = HEADERS / "clients.cpp"
TYPES = ROOT / "csrc/cuda/types.hpp"
PACKAGES = {"CUDA 12": "nvidia-cuda-runtime-cu12", "CUDA 13": "nvidia-cuda-runtime"}


def include_folder(package: str) -> Path:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(
            f"{package} is not installed: pip has no wheel for this machine, or --group test is missing"
        )
    (header,) = [file for file in files if file.name == "cuda.h"]
    return Path(str(header.locate())).parent


@pytest.fixture(params=PACKAGES)
def include(request: pytest.FixtureRequest) -> Path:
    return include_folder(PACKAGES[request.param])


def compile_against(
    include: Path, sources: Path, program: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler is not None, "no C++ compiler"
    folders = ["-isystem", include, "-I", sources, "-I", HEADERS, "-I", SIMULATOR]
    command = [compiler, "-std=c++20", *folders, program, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_types_agree_with_headers(include, tmp_path) -> None:
    program = tmp_path / "agreement"
    done = compile_against(include, ROOT / "csrc", CLIENTS, "-o", str(program))
    assert done.returncode == 0, done.stderr
    # What the compiler cannot compare: the two streams that exist without being created.
    assert subprocess.run([program], timeout=60, check=False).returncode == 0


MUTANTS = {
    "size of a structure": ("unsigned char flags[8]", "unsigned char flags[16]"),
    "order of members": ("  int type;\n  int handle_types;", "  int handle_types;\n  int type;"),
    "a result": ("kPeerAccessUnsupported = 217", "kPeerAccessUnsupported = 216"),
    "an attribute": ("kHasIpc = 125", "kHasIpc = 124"),
    "width of a parameter": ("(char*, int, DeviceNumber)", "(char*, long, DeviceNumber)"),
    "number of parameters": ("X(cuMemRelease, (MemoryHandle))", "X(cuMemRelease, ())"),
    "a lost const": ("(DevicePtr, const void*,", "(DevicePtr, void*,"),
    "a structure by pointer": ("(EventHandle*, IpcEventHandle)", "(EventHandle*, IpcEventHandle*)"),
    "another handle": ("X(cuStreamQuery, (StreamHandle))", "X(cuStreamQuery, (EventHandle))"),
    "a name without its version": ("X(cuMemFree_v2,", "X(cuMemFree,"),
    "an older version": ("X(cuIpcOpenMemHandle_v2,", "X(cuIpcOpenMemHandle,"),
    "a version that does not exist": ("X(cuMemRelease,", "X(cuMemRelease_v2,"),
    "the variant for a stream per thread": ("X(cuEventRecord,", "X(cuEventRecord_ptsz,"),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_disagreement_is_found(mutant, tmp_path) -> None:
    include = include_folder(PACKAGES["CUDA 13"])
    right, wrong = MUTANTS[mutant]
    text = TYPES.read_text()
    assert text.count(right) == 1, "types.hpp has changed: adapt the mutant"
    copy = tmp_path / "cuda/types.hpp"
    copy.parent.mkdir()
    # Without its own assertions, which would find some of these, too.
    copy.write_text(re.sub(r"^static_assert.*\n", "", text.replace(right, wrong), flags=re.MULTILINE))
    done = compile_against(include, tmp_path, AGREEMENT, "-fsyntax-only")
    assert done.returncode != 0, "the wrong header agrees with cuda.h"
    assert "agreement.cpp" in done.stderr


def test_every_declaration_is_compared() -> None:
    """A new structure, member or constant of types.hpp must be added to the comparison."""
    types, agreement = TYPES.read_text(), AGREEMENT.read_text()
    constants = set(re.findall(r"inline constexpr \w+(?: \w+)* (k\w+) =", types))
    assert constants == set(re.findall(r"^SAME_VALUE\((\w+),", agreement, re.MULTILINE))
    assert len(constants) > 50
    structures = set(re.findall(r"^struct (\w+) \{", types, re.MULTILINE))
    assert structures == set(re.findall(r"^SAME_STRUCTURE\((\w+),", agreement, re.MULTILINE))
    for name, body in re.findall(r"^struct (\w+) \{(.*?)^\};", types, flags=re.MULTILINE | re.DOTALL):
        declared = set(re.findall(r"^ +[\w:*& ]+?(\w+)(?:\[\d+\])?;", body, re.MULTILINE))
        compared = set(re.findall(rf"SAME_MEMBER\({name}, \w+, ([\w.]+),", agreement))
        parts = {part for member in compared for part in member.split(".")}
        assert declared == parts, name
    groups = set(re.findall(r"#define (SHMTENSOR_CUDA_\w+)\(X\)", types))
    assert groups == set(re.findall(r"^(SHMTENSOR_CUDA_\w+)\(SAME_FUNCTION\)", agreement, re.MULTILINE))


def test_every_function_can_be_looked_up() -> None:
    """The simulator's table for cuGetProcAddress has the functions that shmtensor finds by `dlsym`."""
    rows = (SIMULATOR / "clients/functions.hpp").read_text()
    own = rows[rows.index("#define SIM_OWN_VERSIONS") : rows.index("#define SIM_CLIENT_DEVICES")]
    exported = set(re.findall(r"X\((cu\w+),", TYPES.read_text()))
    assert exported == set(re.findall(r"X\(cu\w+, \d+, (\w+)\)", own))
