"""Check wheels: `python -m wheels.check WHEEL ...`.

Each must run where its name promises: auditwheel finds no newer symbol and no other library, and the binaries
are of the machine and the Python named. They are hardened, stripped and small; the module exports one
function, and the manager is beside it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile

from wheels.targets import GLIBC, Target, targets, version

__all__ = ["problems"]

LIMIT = 2_000_000  # bytes of a wheel
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
MANAGER = "shmtensor/shmtensor-manager"
FREE_THREADED = "_Py_MergeZeroLocalRefcount"  # Py_DECREF calls it in a free-threaded build only
UNWINDER = "_Unwind_RaiseException"


def problems(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with a wheel."""
    target = next((target for target in targets() if wheel.name == target.wheel(version())), None)
    if target is None:
        yield f"its name is not that of a target and of version {version()}"
        return
    if wheel.stat().st_size > LIMIT:
        yield f"it has {wheel.stat().st_size} bytes; the limit is {LIMIT}"
    module = f"shmtensor/_core{target.suffix}"
    with zipfile.ZipFile(wheel) as archive:
        yield from _of_tags(archive, target)
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        binaries = {name for name in modes if name.endswith(".so") or name == MANAGER}
        if binaries != {module, MANAGER}:
            yield f"its binaries are {sorted(binaries)} instead of {sorted([module, MANAGER])}"
            return
        if not modes[MANAGER] & 0o111:
            yield f"{MANAGER} is not executable"
        for name in (module, MANAGER):
            content = archive.read(name)
            found = [*_of_binary(content, target), *(_of_module(content, target) if name == module else ())]
            yield from (f"{name} {problem}" for problem in found)
    yield from _of_policy(wheel)


def _of_tags(archive: zipfile.ZipFile, target: Target) -> Iterator[str]:
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
    tags = re.findall(r"^Tag: (.*?)\r?$", archive.read(name).decode(), re.MULTILINE)
    if tags != ["-".join(target.tags)]:
        yield f"{name} has the tags {tags}"


def _of_binary(content: bytes, target: Target) -> Iterator[str]:
    elf = ELFFile(BytesIO(content))
    if elf["e_machine"] != MACHINES[target.machine]:
        yield f"is for {elf['e_machine']}"
    sections = [section.name for section in elf.iter_sections()]
    if any(name.startswith((".debug", ".symtab")) for name in sections):
        yield f"is not stripped: {' '.join(sections)}"
    segments = {segment["p_type"]: segment for segment in elf.iter_segments()}
    tags = [tag for segment in elf.iter_segments("PT_DYNAMIC") for tag in segment.iter_tags()]
    flags = next((tag["d_val"] for tag in tags if tag["d_tag"] == "DT_FLAGS"), 0)
    if "PT_GNU_RELRO" not in segments or not flags & 8:  # DF_BIND_NOW
        yield "has relocations that stay writable"
    if "PT_GNU_STACK" not in segments or segments["PT_GNU_STACK"]["p_flags"] & 1:  # PF_X
        yield "has an executable stack"


def _of_module(content: bytes, target: Target) -> Iterator[str]:
    symbols = list(ELFFile(BytesIO(content)).get_section_by_name(".dynsym").iter_symbols())
    imported = {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF"}
    exported = {symbol.name for symbol in symbols if symbol["st_info"]["bind"] != "STB_LOCAL"} - imported
    if exported != {"PyInit__core"}:
        yield f"exports {sorted(exported)}"
    if UNWINDER not in imported:
        yield "has an unwinder of its own (see libgcc_s.c)"
    if (FREE_THREADED in imported) != target.python.endswith("t"):
        yield f"{'calls' if FREE_THREADED in imported else 'does not call'} {FREE_THREADED}"
    # pybind11 compares it with the version of the interpreter.
    compiled_for = {found.decode() for found in re.findall(rb"\0(3\.\d+)(?=\0)", content)}
    if compiled_for != {target.python.rstrip("t")}:
        yield f"was compiled for Python {sorted(compiled_for)}"


def _of_policy(wheel: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "auditwheel", "show", wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text = " ".join(done.stdout.split())
    found = re.search(r'following platform tag: "manylinux_(\d+)_(\d+)_', text)
    if found is None or (int(found[1]), int(found[2])) > GLIBC:
        yield f"auditwheel: {text}{done.stderr}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wheels.check", description=__doc__.splitlines()[0])
    parser.add_argument("wheels", nargs="+", type=Path)
    bad = False
    for wheel in parser.parse_args().wheels:
        found = list(problems(wheel))
        bad |= bool(found)
        print(f"{wheel.name}: {'; '.join(found) or f'ok, {wheel.stat().st_size / 1e6:.2f} MB'}")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
