"""Every Python example of the README and the guide runs as a program of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.children import run_program, write_program
from tests.helpers.pages import SEARCHED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted((DOCS / "guide").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> list:
    found = []
    for page in PAGES:
        for number, code in enumerate(BLOCK.findall(page.read_text()), start=1):
            found.append(pytest.param(code, id=f"{page.stem}-{number}"))
    assert len(found) > 10, "the pages, or their examples, were not found"
    return found


@pytest.mark.thorough
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


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as its site and GitHub make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = [
        re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    ]
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))], ids=str
)
def test_links_of_pages_lead_to_pages_and_headings(page) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def words(page: Path) -> int:
    """Return how many words a page has, without comments."""
    return len(re.sub(r"<!--.*?-->", "", page.read_text()).split())


def test_pages_fit_into_a_head() -> None:
    """A fact is stated once: write a page shorter before you add to another."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "bench").glob("*.md"), *DOCS.rglob("*.md")]
    assert sum(map(words, pages)) <= 28_000
    assert words(ROOT / "README.md") <= 650


def test_site_lists_every_page() -> None:
    listed = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", sorted((DOCS / "guide").glob("with-*.md")), ids=lambda page: page.stem)
def test_page_of_other_libraries_names_each(page) -> None:
    assert page.stem == "with-others" or f"({page.name})" in (DOCS / "guide" / "with-others.md").read_text()


def test_site_asks_no_other_host() -> None:
    """The theme takes its fonts from Google by default."""
    assert re.search(r"^  font: false\b", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


@pytest.mark.parametrize("word", SEARCHED)
def test_words_that_users_search_for_are_on_pages(word) -> None:
    assert any(re.search(rf"\b{word}\b", page.read_text(), re.IGNORECASE) for page in DOCS.rglob("*.md"))
