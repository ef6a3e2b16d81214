"""Comments and pages name only source files that exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("csrc", "python", "tests", "bench", "probes", "wheels")
FILES = [path for name in FOLDERS for path in (ROOT / name).rglob("*") if "__pycache__" not in path.parts]
NAMES = {path.name for path in (*FILES, *ROOT.iterdir())}
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")]
SOURCES = [path for path in FILES if path.suffix in {".py", ".pyi", ".hpp", ".cpp", ".pml"}]

PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]*[\w/*](?![<{{])")
NAME = re.compile(r"(?<![\w./*-])[\w-]+\.(?:hpp|cpp|pyi?)\b")


def comments(path: Path) -> Iterator[str]:
    """Return the comments and strings of a source file."""
    text = path.read_text()
    if path.suffix in {".hpp", ".cpp", ".pml"}:
        yield from re.findall(r"//.*|/\*.*?\*/", text, re.DOTALL if path.suffix == ".pml" else 0)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def missing(text: str) -> list[str]:
    """Return the names in a text that no file has; a path may omit the ending."""
    paths = [name for name in PATH.findall(text) if not any(ROOT.glob(f"{name.rstrip('/')}*"))]
    return paths + [name for name in NAME.findall(text) if name not in NAMES]


def test_missing_files_are_found() -> None:
    assert missing("see csrc/base/no.hpp and `_none.py`, tests/none/") == [
        "csrc/base/no.hpp",
        "tests/none/",
        "_none.py",
    ]
    text = "csrc/os/parent_death, tests/cpp/<layer>/, csrc/*/error.hpp, `conftest.py`, other/no.py"
    assert missing(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_named_in_pages_exist(page) -> None:
    assert not missing(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE))


@pytest.mark.thorough
def test_files_named_in_comments_exist() -> None:
    found = {path: missing("\n".join(comments(path))) for path in SOURCES}
    assert not {str(path.relative_to(ROOT)): names for path, names in found.items() if names}
