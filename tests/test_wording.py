"""Prose in sources and pages avoids phrases that a reader has to decode."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKED = (".",)
EXCLUDED = ("tests/fuzz/corpus/", "tests/test_wording.py", "docs/contributing/writing.md")

# Nouns and other words after which "is no" is plain English: "there is no such file", "is no longer".
_IS_NO = r"(?<!there )(?<!There )\b(?:is|are) no (?!longer\b|more\b|need\b|one\b)[a-z]+"
# The user `nobody` keeps his name.
_SOME_PROCESS = r"(?:^(?=[A-Z])|(?<=\s)(?<!(?i:user) ))(?:[Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body\b"
PHRASES = {
    re.compile(r"\banew\b"): "again",
    re.compile(r"\blet(?:s|ting)? (?:(?:it|them|him) )?go\b(?! of the GIL)"): "release",
    re.compile(_IS_NO): "is not a",
    re.compile(r"\btaken? for dead\b"): "considered dead",
    re.compile(r"\bwithout a word\b"): "silently, without a report",
    re.compile(r"\bfor ever\b"): "indefinitely",
    re.compile(r"\bbehind (?:our|its|their|\w+'s) backs?\b"): "name the actor",
    re.compile(
        r"(?:^|[.;:] +|\n\s*|, | of )[Ww]ho (?:has|had|is|was|asks|sends|reads)\b"
    ): "a process that ...",
    re.compile(_SOME_PROCESS): "no process, another process",
    re.compile(r"\b(?:says|said|tells?|told|telling)\b"): "reports, notifies, contains",
    re.compile(r"\bin vain\b"): "without success",
    re.compile(r"\bbehind (?:the|its|their)\b"): "after",
    re.compile(r"\bat once\b"): "immediately, simultaneously",
    re.compile(r"\blook(?:s|ed)? (?:at|around)\b"): "read, check",
}


def _files() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *CHECKED],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [
        name
        for name in done.stdout.splitlines()
        if name.endswith((".py", ".pyi", ".cpp", ".hpp", ".md"))
        and not name.startswith(EXCLUDED)
        and (ROOT / name).exists()
    ]


def _python_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments and string literals with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _cpp_prose(text: str) -> Iterator[tuple[int, str]]:
    literals = re.compile(r'//[/!<]*\s*(?P<comment>.*)|"(?P<string>(?:[^"\\\n]|\\.)*)"')
    for number, line in enumerate(text.splitlines(), 1):
        for found in literals.finditer(line):
            yield number, found["comment"] or found["string"] or ""


def _page_prose(text: str) -> Iterator[tuple[int, str]]:
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def _prose(name: str, text: str) -> Iterator[tuple[int, str]]:
    if name.endswith((".py", ".pyi")):
        return _python_prose(text)
    return _page_prose(text) if name.endswith(".md") else _cpp_prose(text)


def _questions(text: str) -> Iterator[int]:
    """Yield the lines of docstrings that are questions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if docstring.rstrip().endswith("?") or docstring.split("\n")[0].endswith("?"):
                yield node.body[0].lineno


def problems_in(name: str, text: str) -> list[str]:
    """Return one line for each phrase found: the place, the phrase and what to write instead."""
    found = [
        f"{name}:{line + prose.count(chr(10), 0, match.start())}: {match[0].strip()!r}: {better}"
        for line, prose in _prose(name, text)
        for phrase, better in PHRASES.items()
        for match in phrase.finditer(prose)
    ]
    if name.endswith((".py", ".pyi")):
        found += [f"{name}:{line}: a docstring is a question" for line in _questions(text)]
    return sorted(set(found))


@pytest.mark.thorough
def test_prose_avoids_listed_phrases() -> None:
    found = [problem for name in _files() for problem in problems_in(name, (ROOT / name).read_text())]
    assert not found, "\n".join([f"{len(found)} phrases:", *found])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "# The count begins anew."),
        ("a.py", 'text = "the memory has been let go"'),
        ("a.py", '"""Does it run?"""'),
        ("a.py", 'f"{value} is no index"'),
        ("a.cpp", "/// Waits for ever.\nint x;"),
        ("a.cpp", 'throw Error("the process was taken for dead");'),
        ("a.md", "Who has a handle may send it."),
        ("a.md", "It closes without a word."),
        ("a.py", "# Freed when nobody holds it."),
        ("a.cpp", "// The sender, who has the bit, clears it."),
        ("a.py", '"""Whatever the table says."""'),
        ("a.py", "# Both start at once."),
        ("a.cpp", "// It tells the manager."),
        ("a.py", "# It waits in vain."),
        ("a.md", "The records behind the header."),
        ("a.cpp", "// The manager looks at it."),
    ],
)
def test_listed_phrase_is_reported(name: str, text: str) -> None:
    (problem,) = problems_in(name, text)
    assert problem.startswith(f"{name}:1: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "# There is no such file; the block is no longer live."),
        ("a.py", "anew = 1"),
        ("a.cpp", "int let_go();"),
        ("a.md", "```\nwait for ever\n```"),
        ("a.py", '# The user nobody owns it.\nname = "nobody"'),
    ],
)
def test_plain_prose_and_code_are_accepted(name: str, text: str) -> None:
    assert problems_in(name, text) == []
