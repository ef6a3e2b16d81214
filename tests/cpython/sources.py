"""The tests of the running Python's standard library, as a program that uses the drop-in would have them.

Only imports are changed: `import multiprocessing` is followed by `import shmtensor.multiprocessing as
multiprocessing`, and `from multiprocessing import` names the drop-in. Submodules stay the standard library's
where the drop-in has none of its own. The copy is a module that started processes import like any other.
The tests of executors, which name their start methods, have a second copy for "server". Those of executors
of subinterpreters, which the package refuses, are left out.
"""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

METHODS = ("fork", "spawn", "forkserver", "server")
NAMES = ("_test_multiprocessing", "test_multiprocessing_main_handling", "mp_fork_bomb", "mp_preload")
CHANGES = (
    (r"^([ \t]*)import multiprocessing as ", r"\1import shmtensor.multiprocessing as "),
    (
        r"^([ \t]*)(import multiprocessing(?:\.\w+)*)\b(?!\.)(?! as)",
        r"\1\2; import shmtensor.multiprocessing as multiprocessing",
    ),
    (r"\bfrom multiprocessing(\.sharedctypes)? import", r"from shmtensor.multiprocessing\1 import"),
)
PLACES = (  # moved out of the package `test`
    ("test._test_multiprocessing", "_test_multiprocessing"),
    ("test.test_multiprocessing_forkserver", "with_forkserver"),
)
FUTURES = "test_concurrent_futures"  # one module; a package since Python 3.12
FUTURES_WITH_SERVER = "futures_with_server"  # the same, whose classes for spawn use "server"
RUNNER = """
import _test_multiprocessing

_test_multiprocessing.install_tests_in_module_dict(globals(), "{method}")
"""


def are_installed() -> bool:
    return all((_folder() / f"{name}.py").is_file() for name in NAMES)


def futures_modules() -> list[str]:
    """Return the names of the modules with the tests of executors."""
    modules = [".".join(path.with_suffix("").parts) for path in _futures() if path.stem.startswith("test_")]
    return modules + [_with_server(module) for module in modules]


def concerns(module: str, name: str) -> bool:
    """Return True if the module runs this test class."""
    if name.startswith("InterpreterPool"):
        return False
    return "Spawn" in name or FUTURES_WITH_SERVER not in module


def _futures() -> list[Path]:
    one = [_folder() / f"{FUTURES}.py"]
    files = one if one[0].is_file() else sorted((_folder() / FUTURES).glob("*.py"))
    return [path.relative_to(_folder()) for path in files if path.stem != "test_interpreter_pool"]


def write(folder: Path, *, standard: bool = False) -> None:
    """Write the modules to run; if `standard` is true, with unchanged imports."""
    for name in [*(Path(f"{name}.py") for name in NAMES), *_futures()]:
        text = (_folder() / name).read_text()
        for old, new in PLACES:
            text = text.replace(old, new)
        for pattern, new in () if standard else CHANGES:
            text = re.sub(pattern, new, text, flags=re.MULTILINE)
        _write(folder / name, text)
        if name in _futures():
            text = text if standard else text.replace('ctx = "spawn"', 'ctx = "server"')
            _write(folder / _with_server(str(name)), text)
    for method in METHODS:
        (folder / f"with_{method}.py").write_text(RUNNER.format(method=method))


def _with_server(text: str) -> str:
    return text.replace(FUTURES, FUTURES_WITH_SERVER)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _folder() -> Path:
    return Path(sysconfig.get_path("stdlib")) / "test"
