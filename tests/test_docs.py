"""Every Python example of the README and the guide runs as a program of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.children import run_program, write_program

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> list:
    found = []
    for page in PAGES:
        for number, code in enumerate(BLOCK.findall(page.read_text()), start=1):
            found.append(pytest.param(code, id=f"{page.stem}-{number}"))
    assert len(found) > 10, "the pages, or their examples, were not found"
    return found


@pytest.mark.parametrize("code", examples())
def test_example_runs(tmp_path, code) -> None:
    program = write_program(tmp_path, code)
    # A named session, since `once` warns in a program that a Python program executes, as here.
    done = run_program(program, env={"SHMTENSOR_SESSION": str(program)})
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_first_example_prints_the_number_of_its_comment(tmp_path) -> None:
    code = BLOCK.findall(PAGES[0].read_text())[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    (printed,) = re.findall(r"print\(.*\)  # ([\d.]+)", code)
    assert run_program(write_program(tmp_path, code)).stdout.split() == [printed]


@pytest.mark.parametrize("folder", ["csrc", "python", "tests"])
def test_pages_named_in_code_exist(folder) -> None:
    for path in (ROOT / folder).rglob("*"):
        if path.suffix in {".hpp", ".cpp", ".py", ".pyi"}:
            for page in re.findall(r"docs/[\w/-]+\.md", path.read_text()):
                assert (ROOT / page).is_file(), f"{path}: {page}"
