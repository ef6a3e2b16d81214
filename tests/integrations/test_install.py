"""`install` and `uninstall`, without any library: names, options, the import hook, what children inherit."""

from __future__ import annotations

import sys
import threading

import pytest

import shmtensor as st
from shmtensor._import_hook import when_imported
from shmtensor.integrations import _registry
from tests.helpers.children import importing_tests, run_program, run_python, write_program
from tests.integrations.programs import succeed


def test_unknown_name_is_reported_with_the_known_ones() -> None:
    for function in (st.install, st.uninstall):
        with pytest.raises(ValueError, match="named 'torhc'; there are cupy, dask, jax, joblib, "):
            function("torch", "torhc")
    with pytest.raises(ValueError, match="each name is an argument of its own"):
        st.install("torch,joblib")
    with pytest.raises(TypeError, match=r"each an argument of its own, not \['torch'\]"):
        st.install(["torch"])
    assert not _registry._requested


def test_options_need_one_library_that_has_them() -> None:
    with pytest.raises(TypeError, match="exactly one library"):
        st.install(alias=True)
    with pytest.raises(TypeError, match="torch has no option 'aliases'; it has alias"):
        st.install("torch", aliases=True)
    assert not _registry._requested


def test_install_imports_no_library_and_starts_no_session() -> None:
    done = run_python("""
        import sys
        import shmtensor as st
        st.install()
        known = st.integrations._registry.KNOWN
        assert not known.keys() & sys.modules.keys(), sys.modules.keys()
        assert st.stats() is None or st.stats()["slot"] is None, st.stats()
    """)
    assert done.returncode == 0, done.stderr


def test_variable_installs_at_import() -> None:
    program = """
        import shmtensor as st
        from shmtensor.integrations._registry import _requested
        print(*_requested)
    """
    done = run_python(program, env={"SHMTENSOR_INSTALL": "torch, "})
    assert done.stdout == "torch\n", done
    done = run_python(program, env={"SHMTENSOR_INSTALL": "torch,torhc"})
    assert "SHMTENSOR_INSTALL='torch,torhc': no integration is named 'torhc'" in done.stderr


def test_import_registers_nothing_without_the_variable() -> None:
    done = run_python("""
        import sys
        import shmtensor as st
        assert not [name for name in sys.modules if name.startswith("shmtensor.integrations")]
        assert not [finder for finder in sys.meta_path if "shmtensor" in type(finder).__module__]
    """)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that is not imported yet."""
    name = f"package_{tmp_path.name.replace('-', '_')}"
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / f"{name}.py").write_text("import time\ntime.sleep(0.2)\ncomplete = True\n")
    monkeypatch.syspath_prepend(str(folder))
    before = list(sys.meta_path)
    yield name
    sys.modules.pop(name, None)
    sys.meta_path[:] = before


def test_function_is_called_after_the_import_once(package) -> None:
    calls = []
    when_imported(package, lambda: calls.append(sys.modules[package].complete))
    assert calls == []
    module = __import__(package)
    assert calls == [True]
    assert "exec_module" not in vars(module.__spec__.loader)
    when_imported(package, lambda: calls.append("now"))
    assert calls == [True, "now"]


def test_several_functions_wait_for_one_package(package) -> None:
    """Each is called once, in the order of the requests, though one fails."""
    calls = []

    def fail() -> None:
        raise RuntimeError("too old")

    for function, *arguments in ((calls.append, 1), (fail,), (calls.append, 2), (calls.append, 1)):
        when_imported(package, function, *arguments)
    with pytest.warns(RuntimeWarning, match="could not set up .*too old"):
        __import__(package)
    assert calls == [1, 2]


def test_function_waits_for_an_import_in_another_thread(package) -> None:
    calls = []
    thread = threading.Thread(target=__import__, args=(package,))
    thread.start()
    while package not in sys.modules:
        pass
    when_imported(package, lambda: calls.append(sys.modules[package].complete))
    assert calls == [True]
    thread.join()


def test_failing_function_does_not_fail_the_import(package) -> None:
    def fail() -> None:
        raise RuntimeError("too old")

    when_imported(package, fail)
    with pytest.warns(RuntimeWarning, match="could not set up .*too old"):
        assert __import__(package).complete
    with pytest.raises(RuntimeError, match="too old"):
        when_imported(package, fail)


def test_failing_import_is_waited_for_again(package, tmp_path) -> None:
    calls = []
    path = tmp_path / "path" / f"{package}.py"
    complete = path.read_text()
    path.write_text("raise ImportError('not now')\n")
    when_imported(package, lambda: calls.append(True))
    with pytest.raises(ImportError, match="not now"):
        __import__(package)
    path.write_text(complete)
    __import__(package)
    assert calls == [True]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", "server"])
def test_children_have_the_integrations_of_their_parent(method) -> None:
    succeed("install_children.py", method)


def test_child_without_shmtensor_runs(tmp_path) -> None:
    done = run_program(
        write_program(
            tmp_path,
            """
            import multiprocessing
            import sys

            def work():
                assert "shmtensor" not in sys.modules
                print("fine")

            if __name__ == "__main__":
                import shmtensor as st

                st.install("torch")
                # As if another interpreter were to run the child: shmtensor is not in its path.
                import pathlib

                sys.path[:] = [path for path in sys.path if not pathlib.Path(path, "shmtensor").exists()]
                context = multiprocessing.get_context("spawn")
                multiprocessing.spawn.set_executable(sys.argv[1])
                process = context.Process(target=work)
                process.start()
                process.join(50)
                assert process.exitcode == 0
            """,
        ),
        sys._base_executable,
    )
    assert done.stdout == "fine\n", done


def test_part_is_set_up_when_all_its_packages_are_imported(package, monkeypatch) -> None:
    """Whichever is imported last, here one that is imported already or another one."""
    calls = []

    class Module:
        install = staticmethod(lambda: calls.append(sys.modules[package].complete))
        uninstall = staticmethod(lambda: calls.append("removed"))

    monkeypatch.setitem(_registry.KNOWN, "library", frozenset())
    monkeypatch.setitem(_registry._PARTS, "library", ("library.part",))
    monkeypatch.setitem(sys.modules, "shmtensor.integrations.library.part", Module)
    for packages in (("sys", package), (package, "sys")):
        monkeypatch.setitem(_registry._PACKAGES, "library.part", packages)
        sys.modules.pop(package, None)
        st.install("library")
        assert calls == []
        __import__(package)
        assert calls == [True]
        st.uninstall("library")
        assert calls == [True, "removed"]
        calls.clear()


def test_library_that_is_imported_is_set_up_immediately_and_once(package, monkeypatch) -> None:
    """With a module of an integration that only counts."""
    calls = []

    class Module:
        @staticmethod
        def install(**options) -> None:
            calls.append(options)

        @staticmethod
        def uninstall() -> None:
            calls.append("removed")

    monkeypatch.setitem(_registry.KNOWN, package, frozenset({"fast"}))
    monkeypatch.setitem(sys.modules, f"shmtensor.integrations.{package}", Module)
    st.install(package)
    assert calls == []
    __import__(package)
    assert calls == [{}]
    st.install(package)
    assert calls == [{}]
    st.install(package, fast=True)
    st.install()  # keeps the option
    assert calls == [{}, "removed", {"fast": True}]
    threads = [threading.Thread(target=st.install, args=(package,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls[3:] == ["removed", {}]
    st.uninstall()
    st.uninstall(package)
    assert calls[5:] == ["removed"]
    assert not _registry._requested
    assert not _registry._installed


WRAPPED_START = """
import functools
from multiprocessing.process import BaseProcess

start = BaseProcess.start
BaseProcess.start = functools.wraps(start)(lambda process: start(process))
"""


@pytest.mark.parametrize("before", ["", WRAPPED_START], ids=["", "wrapped"])
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_arguments_that_a_child_does_not_load_are_released(method, before) -> None:
    """Regression: not if another library, as a tracer does, had wrapped `start` before."""
    done = run_python(
        """
        import gc
        import multiprocessing
        import sys
        import time
        import shmtensor as st
        from tests.helpers.children import wait_until

        if __name__ == "__main__":
            exec(sys.argv[2])
            st.install("joblib")
            st.install("loky")
            child = multiprocessing.get_context(sys.argv[1]).Process(target=time.sleep, args=(9, st.zeros(8)))
            child.start()
            child.kill()  # before it has read anything
            child.join()
            del child
            gc.collect()
            wait_until(lambda: st.stats()["blocks"] == 0, 20, lambda: str(st.stats()))
        """,
        env=importing_tests(),
        arguments=(method, before),
    )
    assert done.returncode == 0, done.stderr
