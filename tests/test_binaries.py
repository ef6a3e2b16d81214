"""The built files: hardened, and without unnecessary symbols."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import shmtensor._core

MODULE = Path(shmtensor._core.__file__)
MANAGER = MODULE.with_name("shmtensor-manager")


def readelf(option: str, path: Path) -> str:
    done = subprocess.run(["readelf", "--wide", option, path], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("path", [MODULE, MANAGER], ids=["module", "manager"])
def test_binaries_have_hardened_stack_and_relocations(path) -> None:
    segments = readelf("--program-headers", path)
    (stack,) = re.findall(r"GNU_STACK.* ([RWE ]{3}) ", segments)
    assert "E" not in stack
    assert "GNU_RELRO" in segments
    assert "NOW" in readelf("--dynamic", path)
    assert "__stack_chk_fail" in readelf("--dyn-syms", path)


def test_module_exports_only_its_entry_point() -> None:
    """Symbols of shmtensor or pybind11 could clash with those of other extensions in the same process."""
    rows = [line.split() for line in readelf("--dyn-syms", MODULE).splitlines()]
    exported = {row[7] for row in rows if len(row) > 7 and row[4] in {"GLOBAL", "WEAK"} and row[6].isdigit()}
    assert exported == {"PyInit__core"}
