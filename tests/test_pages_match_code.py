"""Pages that repeat something of the code are compared with it."""

from __future__ import annotations

import multiprocessing
import re
from pathlib import Path

import pytest

import shmtensor as st
import shmtensor.futures  # has exceptions of its own
import shmtensor.multiprocessing as mp
from shmtensor import _core, errors
from tests.check_layers import LAYERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
OVERVIEW = (DOCS / "design" / "overview.md").read_text()
REFERENCE = "\n".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))
SIZES = {"std::uint8_t": 1, "std::uint16_t": 2, "std::uint32_t": 4, "std::uint64_t": 8}


def fields(text: str) -> dict[str, int]:
    """Return the fields of a drawing, ``name:size name:size``."""
    return {name: int(size) for name, size in re.findall(r"([\w-]+):(\d+)", text)}


def test_handle_layout() -> None:
    page = (DOCS / "design" / "blocks.md").read_text()
    source = (ROOT / "csrc" / "session" / "handle.cpp").read_text()
    (struct,) = re.findall(r"struct Wire \{(.*?)\};", source, re.DOTALL)
    wire = {name: SIZES[kind] for kind, name in re.findall(r"(std::\w+) (\w+);", struct)}
    wire["session"] = wire.pop("session_high") + wire.pop("session_low")
    (drawn,) = re.findall(r"^version:.*$", page, re.MULTILINE)
    assert list(fields(drawn).items()) == list(wire.items())
    assert f"{sum(wire.values())} bytes" in drawn
    (flags,) = re.findall(r"^flags +(.*)$", page, re.MULTILINE)
    shifts = {name: int(value) for name, value in re.findall(r"k(\w+)Shift = (\d+);", source)}
    read_only, strategy, bit = fields(flags).values()
    assert (read_only, read_only + strategy) == (shifts["Strategy"], shifts["Bit"])
    assert read_only + strategy + bit == 8


def family(base: type[BaseException], depth: int = 0) -> list[tuple[int, str]]:
    """Return a class and its subclasses in the package, each with its depth."""
    kinds = [kind for kind in base.__subclasses__() if kind.__module__.startswith("shmtensor")]
    below = [name for kind in kinds for name in family(kind, depth + 1)]
    return [(depth, base.__name__), *below]


def test_tree_of_exceptions() -> None:
    page = (DOCS / "guide" / "troubleshooting.md").read_text()
    (tree,) = re.findall(r"```text\n(ShmTensorError.*?)```", page, re.DOTALL)
    drawn = []
    for line in tree.splitlines():
        match = re.match(r"([│├└─ ]*)(?:multiprocessing\.|futures\.)?(\w+)", line)
        assert match is not None
        drawn.append((len(match[1]) // 4, match[2]))
    assert sorted(drawn) == sorted(family(errors.ShmTensorError))
    assert {name for _, name in drawn} >= set(errors.__all__)


def test_layers_of_the_overview() -> None:
    (line,) = re.findall(r"base(?: <- \w+)+ <- bindings", OVERVIEW)
    layers = line.split(" <- ")
    assert set(layers) == set(LAYERS)
    for layer, needed in LAYERS.items():
        assert set(needed) <= set(layers[: layers.index(layer)])


def test_folders_of_tests() -> None:
    table = CONTRIBUTING[CONTRIBUTING.index("## Tests") :]
    listed = re.findall(r"^\| `tests/(\w+)` ", table, re.MULTILINE)
    folders = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir()]
    assert sorted(listed) == sorted(name for name in folders if not name.startswith(("_", ".")))


def test_map_of_folders() -> None:
    listed = set(re.findall(r"^\| `([\w/]+)` ", CONTRIBUTING, re.MULTILINE))
    core = {f"csrc/{layer}" for layer in LAYERS}
    package = {
        str(path.parent.relative_to(ROOT))
        for path in (ROOT / "python" / "shmtensor").glob("*/__init__.py")
        if not path.parent.name.startswith("_")
    }
    assert core | package <= listed
    assert all((ROOT / name).is_dir() for name in listed)


def test_makefile_targets_are_documented() -> None:
    """`make help` prints the descriptions; CONTRIBUTING.md has the everyday ones."""
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY:((?:.*\\\n)*.*)$", makefile, re.MULTILINE)
    described = re.findall(r"^([\w-]+):.*## ", makefile, re.MULTILINE)
    assert sorted(phony.replace("\\\n", " ").split()) == sorted(described)
    assert {"help", "test", "lint"} <= set(re.findall(r"`make ([\w-]+)", CONTRIBUTING)) <= set(described)
    assert re.search(r"^[\w-]+:", makefile, re.MULTILINE)[0] == "help:"


@pytest.mark.parametrize("kind", [_core.TensorBase, _core.StorageBase], ids=lambda kind: kind.__name__)
def test_reference_has_the_members_of_the_extension(kind) -> None:
    table = "\n".join(line for line in REFERENCE.splitlines() if line.startswith("| `"))
    for name in vars(kind):
        assert name.startswith("_") or re.search(rf"`{name}(\(\))?`", table), name


def test_reference_has_every_public_name() -> None:
    own = set(mp.__all__) - set(multiprocessing.__all__)  # type: ignore[attr-defined]
    for name in own | {name for name in st.__all__ if not name.startswith("_")}:
        value = getattr(st, name, None) or getattr(mp, name)
        module = getattr(value, "__module__", "")
        whole = f"::: {module}\n" in REFERENCE  # the page has everything of that module
        assert whole or re.search(rf"\b{name}\b", REFERENCE), name


SOURCES = "\n".join(
    path.read_text() for path in (ROOT / "tests").rglob("*") if path.suffix in {".py", ".cpp"}
)
TESTS = set(re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", SOURCES, re.MULTILINE))
FUNCTIONS = set(re.findall(r"^ *(?:async )?def (test_\w+)\(", SOURCES, re.MULTILINE))
MODULES = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_tests_named_in_pages_exist(page) -> None:
    text = page.read_text()
    missing = set()
    for suite, name, rest in re.findall(r"`([A-Z]\w+)\.([A-Z]\w*|)([*…]?)`", text):
        names = [one for group, one in TESTS if group == suite]
        if not (any(one.startswith(name) for one in names) if rest else name in names):
            missing.add(f"{suite}.{name}{rest}")
    for name in re.findall(r"`(test_\w+)(?:\[[^`]*)?`", text):
        if name not in FUNCTIONS:
            missing.add(name)
    for name in re.findall(r"`(?:tests/\w+/)?(test_\w+)\.py`", text):
        if name not in MODULES:
            missing.add(f"{name}.py")
    assert not missing
