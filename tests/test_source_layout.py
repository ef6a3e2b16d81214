"""The layer rules hold for the sources, and the check finds each way to break them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.check_layers import BINDINGS, LAYERS, ROOT, broken_rules


def test_sources_follow_layer_rules() -> None:
    assert broken_rules() == []
    assert len(list(ROOT.rglob("*.[ch]pp"))) > 50, "no sources were found"


def test_every_folder_is_a_layer() -> None:
    assert {path.name for path in ROOT.iterdir() if path.is_dir()} == set(LAYERS)


@pytest.mark.parametrize("order", [LAYERS, BINDINGS], ids=["layers", "bindings"])
def test_layer_dependencies_are_acyclic(order) -> None:
    done: set[str] = set()
    for layer, below in order.items():
        assert set(below) <= done, f"{layer} is named before what it stands on"
        done.add(layer)


def test_every_folder_of_the_bindings_has_a_place_in_the_order() -> None:
    assert {path.name for path in (ROOT / "bindings").iterdir() if path.is_dir()} == set(BINDINGS)


def test_every_source_of_the_bindings_has_a_header() -> None:
    sources = {path.with_suffix("") for path in (ROOT / "bindings").rglob("*.cpp")}
    headers = {path.with_suffix("") for path in (ROOT / "bindings").rglob("*.hpp")}
    assert {path.name for path in sources - headers} == {"module"}


def test_gil_is_released_and_acquired_in_one_file() -> None:
    """Other ways abort the process if the interpreter ends while they wait for it."""
    words = ("gil_scoped_", "PyEval_", "PyGILState_", "Py_BEGIN_ALLOW_THREADS")
    found = [path.name for path in ROOT.rglob("*.[ch]pp") if any(word in path.read_text() for word in words)]
    assert found == ["gil.hpp"]


def test_initializers_are_in_place_of_pybind11s() -> None:
    """pybind11's own end the process, or destroy an object twice, if memory is short: initializer.hpp."""
    words = ("py::init(", "py::init<")
    assert [
        path.name for path in ROOT.rglob("*.[ch]pp") if any(word in path.read_text() for word in words)
    ] == []


def test_sources_do_not_read_the_wall_clock() -> None:
    """An administrator, or NTP, may set the wall clock."""
    words = ("CLOCK_REALTIME", "system_clock", "gettimeofday", "time.time(", "time.time_ns(", "datetime")
    package = ROOT.parent / "python" / "shmtensor"
    sources = [*ROOT.rglob("*.[ch]pp"), *package.rglob("*.py")]
    assert len(sources) > 150, "no sources were found"
    assert [path.name for path in sources if any(word in path.read_text() for word in words)] == []


def test_locks_are_annotated() -> None:
    """Without the annotations, `make lint` checks no access to the data that they protect."""
    words = (
        "std::mutex",
        "std::recursive_mutex",
        "std::shared_mutex",
        "std::lock_guard",
        "std::unique_lock",
        "std::scoped_lock",
    )
    found = {path.name for path in ROOT.rglob("*.[ch]pp") if any(word in path.read_text() for word in words)}
    assert found == {"plain_mutex.hpp"}


def test_modules_do_not_import_the_package_itself() -> None:
    """The layer contract must ignore such imports, because it mistakes imports of the extension for them."""
    package = ROOT.parent / "python" / "shmtensor"
    submodules = {path.stem for path in package.iterdir()}
    for path in package.rglob("*.py"):
        if path.parent.name == "cli" or path in {package / "__init__.py", package / "test.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert "shmtensor" not in [name.name for name in node.names], path
            if isinstance(node, ast.ImportFrom) and node.module == "shmtensor":
                assert {name.name for name in node.names} <= submodules - {"_core"}, path


def test_programs_of_tests_are_files() -> None:
    """Nothing checks a program in a string; one of less than 25 lines reads better beside its assertion."""
    folders = [ROOT.parent / name for name in ("tests", "bench", "probes")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(paths) > 500, "no sources were found"
    for path in paths:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and node not in docstrings:
                # With the lines of the quotation marks.
                assert node.end_lineno - node.lineno <= 25, f"{path}:{node.lineno}: move it to programs"


def write(root: Path, name: str, *lines: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        ("base/a.hpp", '#include "os/fd.hpp"', "base may not include os"),
        ("os/a.cpp", '#include "arena/arena.hpp"', "os may not include arena"),
        ("arena/a.hpp", '#include "session/session.hpp"', "arena may not include session"),
        (
            "manager/deep/a.cpp",
            '#include "bindings/session/session_access.hpp"',
            "manager may not include bindings",
        ),
        ("session/a.cpp", "#include <Python.h>", "only bindings knows Python"),
        ("arena/a.cpp", "#include <pybind11/pybind11.h>", "only bindings knows Python"),
        ("bindings/a.cpp", "#include <pybind11/pybind11.h>", "include bindings/support/python.hpp instead"),
        ("base/a.cpp", "#include <sys/mman.h>", "system calls belong into os"),
        ("session/a.cpp", "#include <fcntl.h>", "system calls belong into os"),
        ("bindings/a.cpp", "#include <dlfcn.h>", "system calls belong into os"),
        ("arena/a.cpp", "#include <poll.h>", "system calls belong into os"),
        (
            "bindings/storage/a.cpp",
            '#include "bindings/cuda/event.hpp"',
            "bindings/storage may not include bindings/cuda",
        ),
        ("bindings/odd/a.cpp", "", "bindings/odd is not a folder with a place in the order"),
        ("elsewhere/a.cpp", '#include "base/error.hpp"', "elsewhere is not a layer"),
    ],
)
def test_each_layer_violation_is_reported_with_its_place(tmp_path, name, line, problem) -> None:
    write(tmp_path, name, "// A file.", "#include <vector>", line)
    found = broken_rules(tmp_path)
    assert any(one.startswith(f"csrc/{name}:3: ") and problem in one for one in found), found


def test_permitted_includes_are_not_reported(tmp_path) -> None:
    write(tmp_path, "base/a.hpp", '#include "base/error.hpp"', "#include <string>", '// #include "os/fd.hpp"')
    write(tmp_path, "os/a.cpp", '#include "base/error.hpp"', "#include <sys/mman.h>", "#include <fcntl.h>")
    write(tmp_path, "arena/segment.cpp", '#include "os/fd.hpp"', "#include <sys/stat.h>")
    write(tmp_path, "bindings/support/python.hpp", "#include <pybind11/pybind11.h>")
    write(tmp_path, "bindings/a.cpp", '#include "bindings/support/python.hpp"', "#include <structmember.h>")
    write(tmp_path, "bindings/a.txt", '#include "nowhere/a.hpp"')
    assert broken_rules(tmp_path) == []


def test_layer_violations_are_reported_in_order(tmp_path) -> None:
    write(tmp_path, "os/b.cpp", '#include "arena/a.hpp"', '#include "session/a.hpp"')
    write(tmp_path, "base/a.cpp", "#include <Python.h>")
    assert [one.split(": ")[0] for one in broken_rules(tmp_path)] == [
        "csrc/base/a.cpp:1",
        "csrc/os/b.cpp:1",
        "csrc/os/b.cpp:2",
    ]
