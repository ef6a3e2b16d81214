"""A subinterpreter, as of mod_wsgi, cannot import the package, and does not affect the main one."""

from __future__ import annotations

import pytest

from tests.helpers.children import run_beside


@pytest.mark.parametrize("order", ["main first", "main last"])
@pytest.mark.parametrize("module", ["shmtensor", "shmtensor._core", "shmtensor.multiprocessing"])
def test_import_in_subinterpreter_raises_and_main_interpreter_works(module, order) -> None:
    """The import waited indefinitely (Python 3.10, 3.11), or broke the main interpreter (3.13)."""
    done = run_beside(__file__, "subinterpreters", module, order, timeout=30)
    assert done.returncode == 0, done.stderr
    text = (
        "shmtensor can only be imported in the main interpreter, not in a subinterpreter; "
        "under mod_wsgi, set WSGIApplicationGroup %{GLOBAL}\n"
    )
    assert done.stdout == (2 * text + "[]\n") * 2
