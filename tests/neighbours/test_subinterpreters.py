"""A subinterpreter, as of mod_wsgi, cannot import the package, and does not affect the main one."""

from __future__ import annotations

import pytest

from tests.helpers.children import run_python

PROGRAM = """
    import sys
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters

    IMPORT = '''if True:
        import sys
        for _ in range(2):
            try:
                import MODULE
            except ImportError as error:
                print(error)
        print(sorted(name for name in sys.modules if name.startswith(("numpy", "shmtensor"))))
        '''

    def attempt(kind):
        made = interpreters.create(*([kind] if sys.version_info >= (3, 13) else []))
        run = getattr(interpreters, "exec", interpreters.run_string)
        run(made, IMPORT.replace("MODULE", sys.argv[1]))
        interpreters.destroy(made)

    def use():
        from multiprocessing.reduction import ForkingPickler
        import shmtensor as st
        tensor = st.full(3, 2)
        assert ForkingPickler.loads(bytes(ForkingPickler.dumps(tensor))).storage() is tensor.storage()

    if sys.argv[2] == "main first":
        use()
    attempt("legacy")
    attempt("isolated")
    sys.stdout.flush()
    use()
"""


@pytest.mark.parametrize("order", ["main first", "main last"])
@pytest.mark.parametrize("module", ["shmtensor", "shmtensor._core", "shmtensor.multiprocessing"])
def test_import_in_subinterpreter_raises_and_main_interpreter_works(module, order) -> None:
    """The import waited indefinitely (Python 3.10, 3.11), or broke the main interpreter (3.13)."""
    done = run_python(PROGRAM, timeout=30, arguments=(module, order))
    assert done.returncode == 0, done.stderr
    text = (
        "shmtensor can only be imported in the main interpreter, not in a subinterpreter; "
        "under mod_wsgi, set WSGIApplicationGroup %{GLOBAL}\n"
    )
    assert done.stdout == (2 * text + "[]\n") * 2
