"""Refuses the import in a subinterpreter.

The package imports this module before the extension and NumPy, whose C++ state is one for the whole process.
Their import there would wait indefinitely (Python 3.10, 3.11) or replace the main interpreter's objects.
"""

from __future__ import annotations

import _thread


def _is_main() -> bool:
    if (ask := getattr(_thread, "_is_main_interpreter", None)) is not None:  # Python 3.12.1
        return bool(ask())
    try:
        import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
    except ImportError:  # a Python that was built without it
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


if not _is_main():
    msg = (
        "shmtensor can only be imported in the main interpreter, not in a subinterpreter; "
        "under mod_wsgi, set WSGIApplicationGroup %{GLOBAL}"
    )
    raise ImportError(msg)
