"""Imports in subinterpreters; `test_subinterpreters.py` runs it. Arguments: MODULE ORDER."""

import sys

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

IMPORT = """if True:
    import sys
    for _ in range(2):
        try:
            import MODULE
        except ImportError as error:
            print(error)
    print(sorted(name for name in sys.modules if name.startswith(("numpy", "shmtensor"))))
    """


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
