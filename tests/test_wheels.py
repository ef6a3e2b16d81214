"""The targets of the wheels, and the checks of a wheel, of a release and of an installation."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest

import shmtensor
import shmtensor.test
from tests.helpers.children import output, run_command, run_python
from wheels import check, headers, release
from wheels.debian import mmdebstrap
from wheels.install import install
from wheels.targets import PYTHONS, ROOT, Target, targets, version

HERE = Target(
    sysconfig.get_python_version() + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""),
    sysconfig.get_platform().partition("-")[2],
)
PROJECT = (ROOT / "pyproject.toml").read_text()


def test_version_is_in_one_place() -> None:
    assert shmtensor.__version__ == metadata.version("shmtensor") == version()
    assert 'dynamic = ["version"]' in PROJECT
    assert not re.search(r"^project\(.*VERSION", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)


def test_targets_are_the_supported_pythons() -> None:
    listed = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT)
    assert listed == [python for python in PYTHONS if not python.endswith("t")]
    assert f'requires-python = ">={PYTHONS[0]}"' in PROJECT


def test_targets_have_the_tags_of_pythons_packaging() -> None:
    assert len({target.tags for target in targets()}) == 2 * len(PYTHONS)
    free_threaded = Target("3.14t", "aarch64")
    assert free_threaded.tags == ("cp314", "cp314t", "manylinux_2_28_aarch64")
    assert free_threaded.suffix == ".cpython-314t-aarch64-linux-gnu.so"
    assert HERE.suffix == sysconfig.get_config_var("EXT_SUFFIX")


def test_unknown_target_is_named() -> None:
    assert targets(["cp312-x86_64"]) == [Target("3.12", "x86_64")]
    with pytest.raises(ValueError, match=r"\['cp27-x86_64'\].*cp314t-aarch64"):
        targets(["cp27-x86_64", "cp312-x86_64"])


def test_headers_of_an_interpreter_are_found(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", f"{sys.base_exec_prefix}/bin:{os.environ['PATH']}")
    assert (headers.headers(sysconfig.get_python_version(), tmp_path) / "Python.h").exists()


def test_headers_of_a_free_threaded_build_declare_it(tmp_path) -> None:
    include = tmp_path / "include"
    include.mkdir()
    (include / "pyconfig.h").write_text("/* #undef Py_GIL_DISABLED */\n#define OTHER 1\n")
    made = headers.free_threaded(include, tmp_path / "made")
    assert (made / "pyconfig.h").read_text() == "#define Py_GIL_DISABLED 1\n#define OTHER 1\n"
    with pytest.raises(FileNotFoundError, match="has 0 lines about Py_GIL_DISABLED"):
        headers.free_threaded(made, tmp_path / "again")


def test_python_without_headers_is_named(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no headers of Python 3\.1: python3\.1 is not on PATH"):
        headers.headers("3.1", tmp_path)


def test_missing_program_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="run `make wheel-tools` as root"):
        mmdebstrap(tmp_path / "root.tar", "trixie", [])


def test_wheel_that_nothing_here_runs_is_listed(tmp_path, capsys) -> None:
    assert install(Target("3.1", HERE.machine), tmp_path) is None
    assert capsys.readouterr().out.startswith(f"cp31-{HERE.machine}: not run, ")


def test_wheel_that_was_not_built_is_listed(tmp_path, capsys) -> None:
    assert install(Target("3.13", HERE.machine), tmp_path) is None  # Debian has this Python
    assert capsys.readouterr().out == f"cp313-{HERE.machine}: not built\n"


# A module as small as can be, for this machine and Python; `WORSE` is what a test adds to it.
SOURCE = """
void _Unwind_RaiseException(void);
#if FREE_THREADED
void _Py_MergeZeroLocalRefcount(void);
#endif
__attribute__((visibility("default"))) void* PyInit__core(void) {
  static const char version[] = "\\0" PYTHON;
  _Unwind_RaiseException();
#if FREE_THREADED
  _Py_MergeZeroLocalRefcount();
#endif
  return (void*)version;
}
"""


def compiled(folder: Path, options: Sequence[str] = ("-s",), more: str = "", python=HERE.python) -> Path:
    """Return a module, compiled with further options and source text."""
    source, module = folder / "module.c", folder / "module.so"
    source.write_text(SOURCE + more)
    command = ["cc", "-shared", "-fPIC", "-nostdlib", "-fvisibility=hidden", str(source), "-o", str(module)]
    command += ["-Wl,-z,relro,-z,now,-z,noexecstack", f'-DPYTHON="{python.rstrip("t")}"']
    command += [f"-DFREE_THREADED={int(python.endswith('t'))}", *options]
    output(run_command(command))
    return module


def packed(
    module: Path,
    *,
    name: str = HERE.wheel(version()),
    module_name: str = f"shmtensor/_core{HERE.suffix}",
    manager_mode: int | None = 0o755,
    tags: tuple[str, ...] = HERE.tags,
    padding: int = 0,
) -> Path:
    """Return a wheel of a module, which is its manager as well."""
    path = module.with_name(name)
    info = f"shmtensor-{version()}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(module, module_name)
        if manager_mode is not None:
            manager = zipfile.ZipInfo("shmtensor/shmtensor-manager")
            manager.external_attr = manager_mode << 16
            archive.writestr(manager, module.read_bytes())
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {'-'.join(tags)}\n")
        archive.writestr(f"{info}/METADATA", f"Name: shmtensor\nVersion: {version()}\n")
        archive.writestr("shmtensor/padding", bytes(padding))
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in archive.namelist()))
    return path


def found_in(wheel: Path) -> str:
    return "; ".join(check.problems(wheel))


def test_good_wheel_has_no_problem(tmp_path) -> None:
    assert found_in(packed(compiled(tmp_path))) == ""


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ({"padding": check.LIMIT}, "the limit is 2000000"),
        ({"name": f"shmtensor-{version()}-py3-none-any.whl"}, "its name is not that of a target"),
        ({"name": HERE.wheel("9.9")}, "and of version"),
        ({"tags": ("py3", "none", "any")}, "has the tags ['py3-none-any']"),
        ({"module_name": "shmtensor/_core.so"}, "its binaries are ['shmtensor/_core.so'"),
        ({"manager_mode": None}, "its binaries are ['shmtensor/_core"),
        ({"manager_mode": 0o644}, "shmtensor-manager is not executable"),
    ],
)
def test_bad_wheel_is_reported(tmp_path, damage, problem) -> None:
    assert problem in found_in(packed(compiled(tmp_path), **damage))


EXPORTED = '__attribute__((visibility("default"))) void f(void) {}'
OWN_UNWINDER = "void _Unwind_RaiseException(void) {}"
OTHER_PYTHON = "3.9t" if HERE.python.endswith("t") else "3.9"
OTHER_THREADING = HERE.python.rstrip("t") if HERE.python.endswith("t") else f"{HERE.python}t"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"more": EXPORTED}, "exports ['PyInit__core', 'f']"),
        ({"more": OWN_UNWINDER}, "has an unwinder of its own"),
        ({"python": OTHER_PYTHON}, "was compiled for Python ['3.9']"),
        ({"python": OTHER_THREADING}, "_Py_MergeZeroLocalRefcount"),
        ({"options": ["-g"]}, "is not stripped"),
        ({"options": ["-s", "-Wl,-z,lazy"]}, "has relocations that stay writable"),
        ({"options": ["-s", "-Wl,-z,execstack"]}, "has an executable stack"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_module_is_reported(tmp_path, arguments, problem) -> None:
    assert problem in found_in(packed(compiled(tmp_path, **arguments)))


def test_symbol_newer_than_the_policy_is_reported(tmp_path) -> None:
    script, library = tmp_path / "versions", tmp_path / "libc.so.6"
    script.write_text("GLIBC_2.29 { newer; };\n")
    (tmp_path / "libc.c").write_text("void newer(void) {}\n")
    command = ["cc", "-shared", "-nostdlib", f"-Wl,--version-script={script},-soname,libc.so.6"]
    output(run_command([*command, str(tmp_path / "libc.c"), "-o", str(library)]))
    call = "void newer(void); void f(void) { newer(); }"
    module = compiled(tmp_path, options=["-s", str(library)], more=call)
    assert "auditwheel: " in found_in(packed(module))


@pytest.mark.thorough
def test_binary_of_another_machine_is_reported(tmp_path) -> None:
    other = Target(HERE.python, "aarch64" if HERE.machine == "x86_64" else "x86_64")
    module_name = f"shmtensor/_core{other.suffix}"
    wheel = packed(compiled(tmp_path), name=other.wheel(version()), module_name=module_name, tags=other.tags)
    assert "is for EM_" in found_in(wheel)


def test_release_reports_what_is_missing(tmp_path) -> None:
    package = tmp_path / "python" / "shmtensor"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "python" / "shmtensor" / "_version.py", package)
    changes = "## [9.9] \N{EN DASH} unreleased\n## [9.8] \N{EN DASH} 2026-01-01\n"
    (tmp_path / "CHANGELOG.md").write_text(changes)
    assert run_command(["git", "init", "--quiet", str(tmp_path)]).returncode == 0
    found = list(release.missing(tmp_path / "dist", tmp_path))
    assert found[:2] == [
        f"CHANGELOG.md begins with version 9.9 instead of {version()}",
        "CHANGELOG.md has no date of the release, but: unreleased",
    ]
    assert len([problem for problem in found if problem.endswith("is missing: make wheels")]) == 13
    assert found[-2:] == [
        "files differ from the last commit",
        f"the tag v{version()} is missing: git tag v{version()}",
    ]


def test_complete_release_lacks_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(release, "problems", lambda wheel: iter(()))
    package, dist = tmp_path / "python" / "shmtensor", tmp_path / "dist"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "python" / "shmtensor" / "_version.py", package)
    (tmp_path / "CHANGELOG.md").write_text(f"## [{version()}] \N{EN DASH} 2026-01-01\n")
    dist.mkdir()
    for name in [*(target.wheel(version()) for target in targets()), f"shmtensor-{version()}.tar.gz"]:
        (dist / name).touch()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "-qm", "Add"], ["tag", f"v{version()}"]):
        assert run_command([*git, *arguments]).returncode == 0
    assert list(release.missing(dist, tmp_path)) == []
    assert run_command([*git, "commit", "--allow-empty", "-qm", "Add"]).returncode == 0
    assert list(release.missing(dist, tmp_path)) == [f"the tag v{version()} is that of another commit"]


def test_workflow_has_every_python_and_runs_only_make_targets() -> None:
    workflow = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    (pythons,) = re.findall(r"python-version: \|((?:\n +\S+)+?)\n +- run", workflow)
    assert pythons.split() == list(PYTHONS)
    commands = re.findall(r"run: (.*)", workflow)
    made = [re.fullmatch(r'(?:sudo )?(?:env "PATH=\$PATH" )?make ([\w-]+)', command) for command in commands]
    assert [found and found[1] for found in made] == [
        "wheels",
        "wheel-tools",
        "check-wheels",
        "release-check",
    ]


METHODS = ("fork", "spawn", "forkserver", "server")


@pytest.mark.thorough
def test_installation_is_checked() -> None:
    done = run_command([sys.executable, "-m", "shmtensor.test"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == [f"{name}: ok" for name in (*METHODS, "kill", "memory")]


def test_arguments_of_the_check_are_read() -> None:
    """Regression: `--help` ran the check."""
    done = run_command([sys.executable, "-m", "shmtensor.test", "--help"])
    assert (done.returncode, done.stdout[:6]) == (0, "usage:")


def test_installation_is_checked_without_cloudpickle() -> None:
    done = run_python("""
        import sys
        sys.modules["cloudpickle"] = None
        from shmtensor.test import _exchange
        _exchange("server")
    """)
    assert done.returncode == 0, done.stderr


def test_failed_check_of_an_installation_is_reported(monkeypatch, capsys) -> None:
    def fail(*_: object) -> None:
        msg = "a reason"
        raise AssertionError(msg)

    monkeypatch.setattr(shmtensor.test, "_exchange", fail)
    monkeypatch.setattr(shmtensor.test, "_kill", lambda: None)
    monkeypatch.setattr(shmtensor.test, "_wait_until_free", lambda: None)
    assert shmtensor.test.main() == 1
    failed = [f"{name}: failed: AssertionError: a reason" for name in METHODS]
    assert capsys.readouterr().out.splitlines()[1:] == [*failed, "kill: ok", "memory: ok"]
